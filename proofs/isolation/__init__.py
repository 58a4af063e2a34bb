"""Twenty organisations on one server, and what each sees of the others."""
