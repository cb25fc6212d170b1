"""What is done for each message: an import is processed, an e-mail is sent."""
