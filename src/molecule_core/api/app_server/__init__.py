"""Threads in the app-server protocol, over a WebSocket."""
