"""Re-executes a snapshot on a driver, in a process of its own."""
