"""What leaves the database: persons that are erased, payloads of suppliers that are archived."""
