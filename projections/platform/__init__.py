"""Records of the platform: their tables, and the changes that events make in them."""
