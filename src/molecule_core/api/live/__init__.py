"""Live channels: one hub per process, WebSocket and server-sent events."""
