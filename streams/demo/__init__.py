"""The demonstration: traffic as channels make it, a crash in the middle, and an independent proof at the end."""
