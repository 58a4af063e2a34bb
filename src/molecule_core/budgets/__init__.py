"""Budgets: limits of money and tokens, from which turns lease before they begin."""
