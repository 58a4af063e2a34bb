"""`prove routing`: one agent that sits in fifty workspaces, and no answer that goes astray."""
