"""`prove network`: people who use a server over a net that delays, cuts, doubles and half-closes."""
