"""Renders the instructions that agents get with each message: how to answer it.

Called by messages, which delivers the text, by api and by server; calls the store and the tool names."""
