"""HTTP, WebSocket and MCP entrances: translate requests into one call of a writer or reader."""
