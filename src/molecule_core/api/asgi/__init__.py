"""ASGI 3 interface of the application, for other servers than ours and for mounting in another application."""
