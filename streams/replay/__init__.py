"""Scenarios through the real law, without a broker: given this state, when these events arrive, this comes of it."""
