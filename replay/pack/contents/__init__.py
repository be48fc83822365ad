"""What memory held: allocations, contents, and the census of pointers in them."""
