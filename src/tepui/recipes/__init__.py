"""One recipe per figure or table of the papers."""
