"""REST routes of organisations, workspaces, people, tokens and sessions."""
