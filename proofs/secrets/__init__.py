"""Canaries: secrets that are used everywhere, and then looked for wherever they must not be."""
