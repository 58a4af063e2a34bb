"""Runs the tools that take more than one request of the public API."""
