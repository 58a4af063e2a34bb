"""Old snapshots and their events are the new snapshot, to the server and to the page."""
