"""The times of a window and of its launches, and what the CPU driver counts."""
