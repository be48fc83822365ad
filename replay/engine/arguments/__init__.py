"""Arguments of captured calls, rebuilt for this process: generic by the table, and the families that need more."""
