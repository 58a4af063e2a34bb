"""The tools that an agent's process runs itself: the merged inbox and replies."""
