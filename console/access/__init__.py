"""Access to the console: cookies, sessions, passwords, sign-in, and the visit before every page."""
