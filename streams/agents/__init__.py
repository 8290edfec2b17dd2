"""One thin module per role: decode, check, hand on. None knows another."""
