"""One adapter per channel: verify, parse, map. No network here."""
