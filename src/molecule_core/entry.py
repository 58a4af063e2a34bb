"""Entry point of the command `molecule`.

The command line's libraries are imported only when needed: they would delay the start of an agent's process (`molecule
mcp`) and fill the memory of a host's hooks, which wait for hours.
"""

import sys
from typing import Any


def main() -> Any:
    """Run the agent's MCP server, a hook, or the command line. Returns or exits with the exit code."""
    if sys.argv[1:] == ["mcp"] and sys.platform != "win32":  # the command line says what to do there
        from molecule_core.agent.main import main as agent

        sys.exit(agent())
    if sys.argv[1:2] == ["host-hook"] and "--help" not in sys.argv and sys.platform != "win32":
        from molecule_core.client.host_hook import main as hook

        sys.exit(hook(sys.argv[2:]))
    from molecule_core.cli import main as command

    return command()
