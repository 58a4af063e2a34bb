"""HTTP client of the public API, and what is built on it: tools, org files, host configuration.

Called by agent, demo and cli; calls tools (runners), wire and common.
"""
