"""Tables outside the log: sessions, user details, typed reasons, refused attempts, troubles of processes."""
