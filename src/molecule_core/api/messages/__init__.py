"""REST and A2A routes of messages, inboxes, replies, files and chains."""
