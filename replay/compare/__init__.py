"""Comparison: of outputs with the captured ones, and of timings with each other."""
