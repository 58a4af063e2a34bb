"""Schedules: messages and delegations at planned times."""
