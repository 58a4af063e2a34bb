"""Entry point of the command `molecule`.

The command line's libraries are imported only when needed: they would delay the start of an agent's process (`molecule
mcp`).
"""

import sys
from typing import Any


def main() -> Any:
    """Run the agent's MCP server for `molecule mcp`, else the command line. Returns or exits with the exit code."""
    if sys.argv[1:] == ["mcp"]:
        from molecule_core.agent.main import main as agent

        sys.exit(agent())
    from molecule_core.cli import main as command

    return command()
