"""What agents use: tokens and cost of their turns, and the prices from which costs are computed."""
