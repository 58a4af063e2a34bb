"""Workspaces whose agents are A2A agents of others: their cards, credentials and remote tasks."""
