"""Graphs that the application made: rebuilt, changed, launched whole or node by node."""
