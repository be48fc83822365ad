"""Whether a replay can be believed: its outputs, what it restores, and that addresses do not matter."""
