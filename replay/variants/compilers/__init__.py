"""Compilers that make the image of a variant: found on this machine or fetched, and run."""
