"""Concord's tests: rooms sorted by what they cost and prove (README.md is the map)."""
