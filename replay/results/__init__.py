"""The result of one replay: what it holds and the file that keeps it."""
