"""Organisations, the workspace tree and agent liveness."""
