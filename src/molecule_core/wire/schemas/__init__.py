"""JSON shapes that the server, agents and clients exchange."""
