"""A2A: cards, tasks and streams of workspaces, in both lines of the protocol. Translation only."""
