"""Reads that cross nouns. Called by the API; calls the readers of nouns and the store."""
