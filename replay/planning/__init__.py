"""Where captured memory is to go, before any driver is asked. Pure functions over the ranges of a snapshot."""
