"""What Postgres remembers: one module per table, SQL beside its function."""
