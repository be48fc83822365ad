"""Looking into a snapshot without running it: which launches it holds, and its contents as files."""
