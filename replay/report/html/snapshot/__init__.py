"""The page of a snapshot."""
