"""Approvals: actions of agents that need permission. Called by api and views; calls messages, org, store."""
