"""Tables that no event makes: sessions, user details, typed reasons, refused attempts, troubles of processes."""
