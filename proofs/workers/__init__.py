"""Three servers on one database are killed and frozen."""
