"""Compilers that make the image of a variant: found on this machine, and run."""
