"""Checkpoint families: one file reads one family's config into a `ModelSpec`."""
