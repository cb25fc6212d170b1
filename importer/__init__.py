"""The importing party's side: speaks only the public HTTP API."""
