"""The HTTP server, and common parts of all requests: routes, bodies, answers, errors, languages."""
