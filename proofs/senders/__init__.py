"""`prove senders`: many senders who repeat themselves over bad connections, and what then stands in the inboxes."""
