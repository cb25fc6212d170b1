"""What one caller may send to harm the others, and how much harm it does at a really running service."""
