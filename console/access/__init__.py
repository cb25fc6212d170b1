"""Who uses the console: sessions, passwords, sign-in, users."""
