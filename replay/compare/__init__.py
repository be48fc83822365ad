"""Verdicts on two sides: rounds by lot, intervals, and rows for people."""
