"""People who use a server over its socket and never give up, what they saw, and the judge of it."""
