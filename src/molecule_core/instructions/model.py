"""Templates of instructions, what is put into them, and what comes out."""

from enum import StrEnum

from msgspec import Struct

BUILT_IN_ORG = ""
"""The organisation of the templates that come with Molecule."""


class Verbosity(StrEnum):
    """How much is said: all of it; what an agent needs that knows the rest; the same, and what has changed."""

    FULL = "full"
    COMPACT = "compact"
    DELTA = "delta"


class AgentProfile(Struct, frozen=True, cache_hash=True):
    """The agent that is spoken to. `template_id`: the workspace's own choice; None: its runtime's. `tools`: bare names
    that its card says, in the registry's order; `known_tools` False: its card says nothing of tools. `command_line`: it
    is a program behind a bridge, which answers by a command."""

    workspace_id: str
    org_id: str
    runtime: str
    template_id: str | None
    tools: tuple[str, ...]
    has_tool_list: bool
    answers_by_command: bool = False


class MessageContext(Struct, frozen=True, kw_only=True):
    """What is true of one message. All text; empty: unknown, or there is none. `arrival_workspace_id`: which seat the
    message came to, where the process sits in several. `reminder`: it was handed over before, and not answered."""

    kind: str = ""
    peer_id: str = ""
    peer_name: str = ""
    peer_role: str = ""
    workspace_id: str = ""
    arrival_workspace_id: str = ""
    reply_handle: str = ""
    delegation_id: str = ""
    user_id: str = ""
    intent: str = ""
    due_at: str = ""
    attempt: int = 1
    attachments: tuple[str, ...] = ()
    reminder: bool = False


class TemplateVersionRef(Struct, frozen=True, cache_hash=True):
    """A version of a template. `org_id`: whose row it is; empty: one that comes with Molecule."""

    template_id: str
    version: int
    org_id: str

    @property
    def name(self) -> str:
        """As agents and people read it."""
        return f"{self.template_id}@{self.version}"


class RenderedText(Struct, frozen=True):
    """What is said with one message. `reply_via` is spelled as the runtime does, `available_tools` are bare names.
    `tokens` is an estimate."""

    template_ref: TemplateVersionRef
    verbosity: Verbosity
    text: str
    reply_via: str
    docs_url: str
    stdout_warning: str
    available_tools: tuple[str, ...]
    tokens: int


class TemplateContent(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a template says by itself; the rest it has from the one it extends. `tools` and `lines` add, all else
    replaces. `lines` and `blocks` are texts of the template language.

    `reply_tool`: the bare name of the tool that answers. `docs_url`: where agents read more; a path is one of this
    server. `tools`: names beside the platform's own that may be spoken of, if an agent's card has them."""

    reply_tool: str | None = None
    docs_url: str | None = None
    stdout_warning: str | None = None
    tools: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    blocks: dict[str, str] = {}


RUNTIME_DEFAULT = ""
"""Extended instead of one template by its name: the one of the workspace's runtime."""


class TemplateDraft(Struct, frozen=True):
    """What somebody wishes a template to be."""

    parts: TemplateContent
    runtime: str = ""
    extends: str | None = RUNTIME_DEFAULT
    note: str | None = None


class Template(Struct, frozen=True):
    """One version of a template, in the order of the columns; it never changes. Times in microseconds.

    `runtime`: for which it is meant; empty: for any. `extends`: whose parts it has beside its own."""

    org_id: str
    id: str
    version: int
    runtime: str
    extends: str | None
    parts: TemplateContent
    note: str | None
    created_at: int
    created_by: str

    @property
    def ref(self) -> TemplateVersionRef:
        """How others name it."""
        return TemplateVersionRef(self.id, self.version, self.org_id)


class ActiveVersion(Struct, frozen=True):
    """Which version of a template is spoken with since when (microseconds), in the order of the columns; `canary` is
    another one, which gets `percent` of the messages. `removed_at`: the organisation has it no more."""

    org_id: str
    id: str
    version: int
    canary: int | None
    percent: int
    since: int
    removed_at: int | None = None
