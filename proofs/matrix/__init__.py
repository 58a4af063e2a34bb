"""Who may what, on every route."""
