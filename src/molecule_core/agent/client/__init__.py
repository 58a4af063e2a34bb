"""Requests of an agent's process to its servers: connections, tokens, retries, auth failures."""
