"""Readers join, leave and go on while others write."""
