"""OAuth authorization server of the MCP endpoint."""
