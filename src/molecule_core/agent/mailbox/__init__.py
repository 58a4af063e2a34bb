"""The inbox of an agent's process: memberships, claims, acks, cursors, drafts."""
