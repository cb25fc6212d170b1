"""Books of importers: files that users upload, and commands of importbook that run on them."""
