"""Snapshots whose contents are elsewhere, made whole; and pieces of a store that no snapshot needs."""
