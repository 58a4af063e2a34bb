"""The agent's side: one process, many workspaces. Above: `molecule mcp` and what hosts it. Below: client, wire, ground.

Nothing here loads the HTTP client before the host's `initialize` is answered: hosts give up on slow starters.
"""
