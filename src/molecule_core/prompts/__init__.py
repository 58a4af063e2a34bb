"""System prompts of agents: files shared with child workspaces, and reported prompts."""
