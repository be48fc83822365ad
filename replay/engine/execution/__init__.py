"""The calls of a window: which are made again, prepared, run, submitted, set back."""
