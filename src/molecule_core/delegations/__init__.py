"""Delegations: tasks that one workspace gives another. Called by api and views; calls messages, org, store."""
