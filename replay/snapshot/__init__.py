"""The snapshot file: its container, what goes into it, and how it is made of a capture."""
