"""REST routes of threads, engines and collaboration."""
