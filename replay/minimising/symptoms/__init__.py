"""What a replay shows, and whether it is the same as at the start."""
