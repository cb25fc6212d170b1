"""What is said about the API: its OpenAPI document, the error catalogue, generated pages."""
