"""Databases of every release are opened, with kills in between."""
