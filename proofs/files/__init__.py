"""`prove files`: names that lead elsewhere, and links that are put in the way."""
