"""REST routes of instruction templates, previews and metrics."""
