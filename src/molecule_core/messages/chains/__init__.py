"""Message chains: links between messages, chain limits and small talk."""
