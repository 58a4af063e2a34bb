"""Nobody decides what is not theirs to decide."""
