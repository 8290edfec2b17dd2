"""What a service on this machine says when it cannot be had: the cause, and what to do about it."""

from __future__ import annotations


class ServiceError(RuntimeError):
    """Kafka or Postgres could not be found, started or stopped; the text names the cause and the fix."""
