"""Agents that always delegate on come to rest."""
