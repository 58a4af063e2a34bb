"""No URL leads to where it may not."""
