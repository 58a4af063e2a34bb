"""The MCP host that an agent's process serves: runtime, channel, permissions, standard streams."""
