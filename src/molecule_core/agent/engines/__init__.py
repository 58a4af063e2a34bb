"""Engines run the threads of an agent.

An engine claims a thread and appends to its log, and may be killed at any moment. `molecule agent run` is the one in
this process (docs/how-to/agent-run.md).
"""
