"""Replays with all memory moved: where to, what moved with it, and which words are to blame."""
