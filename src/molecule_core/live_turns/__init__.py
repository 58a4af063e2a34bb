"""Live turns: what agents do at the moment, in memory or in an unlogged table, and never in the journal."""
