"""What a workspace's agent is shown of its surroundings at the start of a session: its peers and its parent's files.

The server composes it; `tools/host_context.py` renders it for models, and agents keep a copy for their next start."""

from msgspec import Struct


class ContextPeer(Struct, frozen=True, omit_defaults=True):
    """A workspace that the agent may write to, in its own words. `is_below`: it is a direct child."""

    id: str
    name: str
    role: str = ""
    description: str = ""
    is_below: bool = False


class ContextFile(Struct, frozen=True):
    """A file that the parent shares with its children."""

    path: str
    content: str


class HostContext(Struct, frozen=True):
    """Surroundings of a workspace. `files`: those that its parent shares."""

    workspace_id: str
    name: str
    peers: list[ContextPeer]
    files: list[ContextFile]
