"""Threads: append-only logs of agent conversations. Called by api and server; calls org, store."""
