"""Shapes of JSON that server and agents both read and write."""
