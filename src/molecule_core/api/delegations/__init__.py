"""REST and A2A routes of delegations."""
