"""Templates of instructions, their input and their output."""

from enum import StrEnum

from msgspec import Struct

BUILT_IN_ORG = ""
"""Organisation id of the built-in templates."""


class Verbosity(StrEnum):
    """How much is written: everything; only what an agent needs that knows the rest; the same and what has changed."""

    FULL = "full"
    COMPACT = "compact"
    DELTA = "delta"


class AgentProfile(Struct, frozen=True, cache_hash=True):
    """The agent that gets the instructions.

    `template_id`: the workspace's own choice; None: the runtime's default. `tools`: bare names from its card, in the
    registry's order; `has_tool_list` False: its card lists no tools. `answers_by_command`: it is a program behind a
    bridge, which answers by a command and remembers nothing. `answers_by_response`: messages are pushed to it, and its
    HTTP response is the answer."""

    workspace_id: str
    org_id: str
    runtime: str
    template_id: str | None
    tools: tuple[str, ...]
    has_tool_list: bool
    answers_by_command: bool = False
    answers_by_response: bool = False


class MessageContext(Struct, frozen=True, kw_only=True):
    """The variables of one message. All are texts; empty: unknown or none.

    `arrival_workspace_id`: the workspace that got the message, where the process serves several. `reminder`: the
    message was delivered before and not answered. `verified`: of a completed delegation's result, yes or no: whether it
    passed checks. `restricted`: yes for a delegated task that says what it may use at most."""

    kind: str = ""
    peer_id: str = ""
    peer_name: str = ""
    peer_role: str = ""
    workspace_id: str = ""
    arrival_workspace_id: str = ""
    reply_handle: str = ""
    delegation_id: str = ""
    verified: str = ""
    restricted: str = ""
    user_id: str = ""
    intent: str = ""
    due_at: str = ""
    attempt: int = 1
    attachments: tuple[str, ...] = ()
    reminder: bool = False

    @property
    def message_handle(self) -> str:
        """Return the handle of the message; unlike `reply_handle`, templates get it for agents without `reply` too."""
        return self.reply_handle


class TemplateVersionRef(Struct, frozen=True, cache_hash=True):
    """A version of a template. `org_id`: its owner; empty: built-in."""

    template_id: str
    version: int
    org_id: str

    @property
    def name(self) -> str:
        """Return the name in the form that agents and people read."""
        return f"{self.template_id}@{self.version}"


class RenderedText(Struct, frozen=True):
    """The instructions of one message.

    `reply_via` is spelled as in the runtime, `available_tools` are bare names. `tokens` is an estimate."""

    template_ref: TemplateVersionRef
    verbosity: Verbosity
    text: str
    reply_via: str
    docs_url: str
    stdout_warning: str
    available_tools: tuple[str, ...]
    tokens: int


class TemplateContent(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The content of a template; the rest comes from the one it extends.

    `tools` and `lines` add to the extended ones, everything else replaces. `lines` and `blocks` are texts of the
    template language.

    `reply_tool`: the bare name of the tool that answers. `docs_url`: where agents can read more; a path is one of this
    server. `tools`: names beside the platform's own that may be mentioned if an agent's card has them."""

    reply_tool: str | None = None
    docs_url: str | None = None
    stdout_warning: str | None = None
    tools: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    blocks: dict[str, str] = {}


RUNTIME_DEFAULT = ""
"""Value of `extends` for the default template of the workspace's runtime."""


class TemplateDraft(Struct, frozen=True):
    """A template to be saved or previewed."""

    parts: TemplateContent
    runtime: str = ""
    extends: str | None = RUNTIME_DEFAULT
    note: str | None = None


class Template(Struct, frozen=True):
    """One version of a template, in the order of the columns; it never changes. Times in microseconds.

    `runtime`: the runtime it is meant for; empty: any. `extends`: the template whose parts it adds to."""

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
        """Return the reference to this version."""
        return TemplateVersionRef(self.id, self.version, self.org_id)


class ActiveVersion(Struct, frozen=True):
    """The active version of a template and its start (microseconds), in the order of the columns.

    `canary`: another version, which gets `percent` of the messages. `removed_at`: the organisation removed the
    template."""

    org_id: str
    id: str
    version: int
    canary: int | None
    percent: int
    since: int
    removed_at: int | None = None
