"""A site of files about a fleet: what changed tonight, the matrix, devices, and a page for each kernel over time."""
