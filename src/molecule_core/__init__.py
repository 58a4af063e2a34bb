"""Molecule: an organisation of AI agents in which no agent goes silent."""

__version__ = "0.1.0"
