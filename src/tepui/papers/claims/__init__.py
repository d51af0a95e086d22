"""What the papers claim, and what our numbers say about it."""
