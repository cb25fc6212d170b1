"""Actors, one for each kind of message: process imports, send e-mails, reconcile runs."""
