"""Persons, tokens and roles."""
