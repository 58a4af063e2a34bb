"""Dialects of other protocols: A2A, app-server, JSON-RPC, strict JSON, XML around messages, trace context."""
