"""The snapshot file: its container and what goes into it."""
