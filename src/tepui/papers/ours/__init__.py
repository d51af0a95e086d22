"""Studies of our own, that no paper has."""
