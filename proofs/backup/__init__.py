"""Copies are taken while others write, and put back."""
