"""MCP endpoint over streamable HTTP."""
