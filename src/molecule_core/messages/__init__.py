"""Messages: logs, inboxes, claims, acks, obligations, delivery and chains."""
