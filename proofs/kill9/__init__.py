"""The server and its agents are killed under load."""
