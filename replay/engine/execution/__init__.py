"""Captured calls made again on a live driver."""
