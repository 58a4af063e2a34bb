"""Full-text search over messages, delegations, items of threads and memories."""
