"""What captured memory and arrays hold: loaded, restored."""
