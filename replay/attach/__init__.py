"""The folder for an issue: a snapshot that may be passed on, what was found with it, and how to see it again."""
