"""Agents' memory: searchable memories, and values under keys."""
