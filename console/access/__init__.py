"""Access to the console: cookies, sessions, passwords, sign-in, and the checks before every page."""
