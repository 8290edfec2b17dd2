"""Kafka and Postgres on this machine without Docker, for development, the demo and the tests."""
