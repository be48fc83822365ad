"""The best of several configurations of a captured kernel."""
