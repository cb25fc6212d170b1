"""The server and what stands around every request: routes, bodies, answers, errors, languages."""
