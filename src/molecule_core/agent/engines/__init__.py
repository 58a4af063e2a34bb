"""Engines: what runs the threads of an agent. Each of them claims a thread, appends to its log, and may die at any
moment. `molecule agent run` is the one in this process (docs/agent-run.md)."""
