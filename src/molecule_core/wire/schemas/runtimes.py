"""Programs that host agents, and the names that their models know our tools by."""

from enum import Enum


class Runtime(Enum):
    """A program that hosts agents. The value is its pattern for names of tools."""

    CLAUDE_CODE = "mcp__{server}__{tool}"
    CODEX = "mcp__{server}.{tool}"
    GEMINI_CLI = "mcp_{server}_{tool}"
    OPENCODE = "{server}_{tool}"
    CLINE = "{server}__{tool}"
    BARE = "{tool}"
    """LangChain, OpenAI Agents, Pydantic AI, the command line."""


# Prefixes of the names that programs report and that workspaces have as their runtime.
_RUNTIME_NAME_PREFIXES = (
    ("claude", Runtime.CLAUDE_CODE),
    ("codex", Runtime.CODEX),
    ("gemini", Runtime.GEMINI_CLI),
    ("opencode", Runtime.OPENCODE),
    ("cline", Runtime.CLINE),
)


def runtime_for_name(name: str) -> Runtime:
    """Return the runtime for a program's name. Unknown programs use bare tool names."""
    lowered = name.lower()
    return next((runtime for start, runtime in _RUNTIME_NAME_PREFIXES if lowered.startswith(start)), Runtime.BARE)


SERVER_NAME = "molecule"
"""The name of our server in a host's configuration, and so in its names of tools."""


def tool_name(tool: str, runtime: Runtime = Runtime.BARE, server: str = SERVER_NAME) -> str:
    """Return the runtime's name for a tool."""
    return runtime.value.format(server=server, tool=tool)
