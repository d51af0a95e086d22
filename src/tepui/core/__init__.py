"""The ground: checks, random numbers, files, values that differ between members."""
