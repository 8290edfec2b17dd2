"""Concord: an exactly-once stream processor that makes payment results agree."""
