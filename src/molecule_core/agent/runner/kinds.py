"""The kinds of agents that a runner can start, as data: programs, permission modes, and the bridge of each."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from molecule_core.tools.host_config import find_host


class AgentKind(Struct, frozen=True, kw_only=True):
    """A kind of agent.

    `program`: what is looked for on PATH. `modes`: its permission modes, the default first. `skipping_modes`: those in
    which it acts without permission prompts. `bridge`: the subcommand of `molecule bridge`; `arguments`: returns what
    follows its common options, for a program, a mode, and whether that mode skips prompts. `host`: its name for
    `molecule connect`; `restart`: the command by which a person goes on with the last session after that."""

    name: str
    title: str
    program: str
    modes: tuple[str, ...] = ()
    skipping_modes: frozenset[str] = frozenset()
    bridge: str
    arguments: Callable[[str, str, bool], Sequence[str]]
    host: str
    restart: str


# Some versions of Claude Code (2.1.197) call the mode in which it asks `default`, a name that the others (2.1.330)
# accept too.
_CLAUDE_NAMES = {"manual": "default"}


def _claude_arguments(program: str, mode: str, skips: bool) -> Sequence[str]:
    accepted = ("--allow-skipping-permissions",) if skips else ()
    return ("--program", program, "--permission-mode", _CLAUDE_NAMES.get(mode, mode), *accepted)


def _codex_arguments(program: str, mode: str, _skips: bool) -> Sequence[str]:
    return ("--program", program, "--approval-policy", mode)


def _gemini_arguments(program: str, _mode: str, _skips: bool) -> Sequence[str]:
    return ("--", program, "--acp", "--skip-trust")


def _opencode_arguments(program: str, _mode: str, _skips: bool) -> Sequence[str]:
    return ("--", program, "acp")


_KINDS = (
    AgentKind(
        name="claude",
        title="Claude Code",
        program="claude",
        modes=("manual", "acceptEdits", "plan", "bypassPermissions"),
        skipping_modes=frozenset(("bypassPermissions",)),
        bridge="claude",
        arguments=_claude_arguments,
        host="claude-code",
        restart="claude --continue",
    ),
    AgentKind(
        name="codex",
        title="Codex",
        program="codex",
        modes=("on-request", "untrusted"),
        bridge="codex",
        arguments=_codex_arguments,
        host="codex",
        restart="codex resume --last",
    ),
    AgentKind(
        name="gemini",
        title="Gemini CLI",
        program="gemini",
        bridge="acp",
        arguments=_gemini_arguments,
        host="gemini",
        restart="gemini",
    ),
    AgentKind(
        name="opencode",
        title="opencode",
        program="opencode",
        bridge="acp",
        arguments=_opencode_arguments,
        host="opencode",
        restart="opencode --continue --port 4096",
    ),
)
KINDS = {each.name: each for each in _KINDS}


def runtime_of(kind: AgentKind) -> str:
    """Return the runtime of the workspace of an agent that a person starts: its messages name its tools."""
    host = find_host(kind.host)
    assert host is not None, kind.host
    return host.runtime


def bridge_arguments(kind: AgentKind, *, program: str, folder: str, mode: str) -> tuple[str, ...]:
    """Return the arguments of `molecule` that start an agent: a bridge that ends with its runner."""
    common = ("bridge", kind.bridge, "--until-eof", "--cwd", folder)
    return (*common, *kind.arguments(program, mode, mode in kind.skipping_modes))
