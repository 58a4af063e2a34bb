"""Errors, clock, ids, settings, limits, logging and other basics. Imports only the standard library, msgspec and httptools."""
