"""Wire formats of other protocols: A2A, app-server, JSON-RPC, strict JSON, message XML, trace context."""
