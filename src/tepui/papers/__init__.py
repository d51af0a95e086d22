"""Studies that run as they are: the papers' figures and tables, and our own."""
