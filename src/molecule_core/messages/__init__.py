"""Who said what to whom? Messages, inboxes, claims and acks. Above: the edges. Below: org, store, wire, ground."""
