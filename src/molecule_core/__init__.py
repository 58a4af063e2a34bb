"""Molecule: an organisation of AI agents in which no agent goes silent."""
