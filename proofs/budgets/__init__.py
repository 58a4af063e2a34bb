"""Turns that run at the same time never spend more than their budgets."""
