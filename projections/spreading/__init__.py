"""Long jobs that the workers of all machines do in parts: what is asked for, by whom, and how far it is."""
