"""Challenges for a variant that may be made to deceive: poisoned outputs, other inputs, samples checked unannounced."""
