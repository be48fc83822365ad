"""Judges a candidate for a captured kernel: outputs, time, what moved, and what to do next."""
