"""Errors, clock, ids, settings, limits, logging and other basics.

Third-party imports: msgspec and httptools only.
"""
