"""What Python programs use, and what the commands call: `docs/library.md`. Public names are those of `replay`."""
