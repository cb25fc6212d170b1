"""HTTP in, HTTP out: a Starlette application, an endpoint file per resource."""
