"""The power fails under load."""
