"""Data shapes and protocol helpers shared by the server, the agent and clients."""
