"""Which bytes of a window decide an address or a branch, and of which type the others are."""
