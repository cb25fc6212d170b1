"""The description of the API: OpenAPI document, error catalogue, descriptions of fields."""
