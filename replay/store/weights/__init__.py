"""Files of weights that captured memory may be equal to."""
