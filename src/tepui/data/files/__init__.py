"""Data sets in files, and where files lie and come from."""
