"""What of the PostgreSQL driver waits: the executor of plans."""
