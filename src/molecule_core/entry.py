"""What the command `molecule` begins with: an agent's process must not wait for the command line's libraries.

Above: a person, or a host of agents. Below: the command line, the agent.
"""

import sys
from typing import Any


def main() -> Any:
    """The entry point. Returns or exits with the exit code."""
    if sys.argv[1:] == ["mcp"]:
        from molecule_core.agent.main import main as agent

        sys.exit(agent())
    from molecule_core.cli import main as command

    return command()
