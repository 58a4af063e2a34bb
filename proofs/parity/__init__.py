"""Every entrance does the same."""
