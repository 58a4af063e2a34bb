"""The platform's tools: specification, registry, documentation, host configuration, MCP dispatcher."""
