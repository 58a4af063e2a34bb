"""Whoever waits is woken, by nothing else."""
