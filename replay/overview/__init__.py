"""What a snapshot's page shows: everything in one window, read within bounds and executed never."""
