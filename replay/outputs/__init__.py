"""Outputs against those that were captured: element types, differences, tolerances, and words for them."""
