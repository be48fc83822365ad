"""A smaller snapshot: what is cut from one, and how it is written."""
