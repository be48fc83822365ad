"""What commands print: each function renders a value to text or JSON and computes nothing."""
