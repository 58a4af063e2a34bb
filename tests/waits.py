"""The two bounds of every wait in the tests. A wait that reaches its bound is a failure, never a pause."""

IN_PROCESS_SECONDS = 5.0
PROCESS_START_SECONDS = 60.0
