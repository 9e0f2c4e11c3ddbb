"""What the service stores in PostgreSQL, and the only functions that change its state."""
