"""What differs between programs that speak ACP, by the name that they give themselves. Pure data."""

from collections.abc import Iterable, Mapping

from msgspec import Struct


class ProgramTraps(Struct, frozen=True, kw_only=True):
    """The traps of one program. `seen`: the newest version that they were seen with.

    `auth_methods`: variables of the environment, each with the method to authenticate with if it is set.
    `tool_titles`: titles of its permission requests for the platform's tools, with {tool} for the name.
    `missing`: abilities that it lacks, each a phrase for the agent card.
    """

    title: str
    seen: str = ""
    auth_methods: Mapping[str, str] = {}
    tool_titles: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


GENERIC = ProgramTraps(title="The program")
PROGRAMS = {
    "gemini-cli": ProgramTraps(
        title="Gemini CLI",
        seen="0.61.0",
        auth_methods={"GEMINI_API_KEY": "gemini-api-key", "GOOGLE_GENAI_USE_VERTEXAI": "vertex-ai"},
        tool_titles=("{tool} (molecule MCP Server)",),
        missing=("memory after each restart", "whole input of permissions"),
    ),
    "opencode": ProgramTraps(title="opencode", seen="1.18.33", tool_titles=("molecule_{tool}",)),
}


def find_traps(name: str) -> ProgramTraps:
    """Return the traps of a program by its `agentInfo.name`."""
    return PROGRAMS.get(name.lower(), GENERIC)


def choose_auth_method(traps: ProgramTraps, offered: list[str], environment: Mapping[str, str]) -> str:
    """Return the method to authenticate with; empty if the program must be logged in already."""
    for variable, method in traps.auth_methods.items():
        if environment.get(variable) and method in offered:
            return method
    return ""


def is_platform_tool(traps: ProgramTraps, call: Mapping[str, object], tools: Iterable[str]) -> bool:
    """Return whether a permission request is for one of the platform's tools, whose effects the server itself judges.

    Commands, whose titles the model writes, have another kind."""
    if call.get("kind") != "other":
        return False
    return any(call.get("title") == title.format(tool=tool) for title in traps.tool_titles for tool in tools)
