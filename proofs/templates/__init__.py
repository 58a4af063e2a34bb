"""Templates of admins, hostile and random ones."""
