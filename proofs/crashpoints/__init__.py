"""The server dies at each of its named points."""
