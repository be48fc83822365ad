"""What a command writes to stdout and stderr, and what happens when nobody takes it."""
