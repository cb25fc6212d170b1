"""Measures and traces of the service. They cost nothing where nobody reads them."""
