"""HTTP in: callbacks of channels, and what later belongs beside them."""
