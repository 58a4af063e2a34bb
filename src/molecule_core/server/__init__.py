"""Composition root: builds the store, packages, API and workers, and runs the process."""
