"""What is tried, in the order in which it is tried."""
