"""Whether a replay can be believed: its outputs, and what it restores."""
