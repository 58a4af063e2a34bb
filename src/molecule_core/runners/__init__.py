"""Runners: programs on machines of people that start agents there, as operators request."""
