"""A corpus over many devices: a plan, workers that take units from a shared folder, and the verdict of a night."""
