"""Arguments and results of the tools, by area."""
