"""`prove state`: five nouns against models of a few lines, whatever is done to them in whatever order."""
