"""Templates of instructions as clients read and write them."""

from typing import Any

from msgspec import Struct


class TemplateParts(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What a template says by itself; the rest it has from the one it extends. `tools` and `lines` add, all else
    replaces; `lines` and `blocks` are texts of the template language (docs/instructions.md)."""

    reply_tool: str | None = None
    docs_url: str | None = None
    stdout_warning: str | None = None
    tools: list[str] = []
    lines: list[str] = []
    blocks: dict[str, str] = {}


class TemplateVersion(Struct):
    """One version of a template. `runtime`: for which it is meant; empty: for any. `extends`: whose parts it has beside
    its own; empty: those of the workspace's runtime; null: it has only its own. `built_in`: it came with Molecule.
    Times are RFC 3339."""

    id: str
    version: int
    runtime: str
    extends: str | None
    parts: TemplateParts
    note: str | None
    created_at: str
    created_by: str
    built_in: bool


class TemplateRow(Struct):
    """A template that an organisation may use, in the version that is in force. `canary`: another version, which gets
    `percent` of the messages. `edited`: it came with Molecule, and this organisation has its own version. `used_by`:
    how many workspaces have chosen it, `default_for`: how many have it because of their runtime."""

    template: TemplateVersion
    canary: int | None
    percent: int
    since: str
    edited: bool
    used_by: int
    default_for: int


class TemplateDetail(Struct):
    """A template with `base`: what those that it extends say together, for a workspace of its runtime."""

    row: TemplateRow
    base: TemplateParts


class SaveTemplateResponse(Struct):
    """What was saved. `warnings`: what its author may not have meant."""

    template: TemplateVersion
    warnings: list[str]


class WorkspaceTemplate(Struct):
    """What a workspace is told with. `chosen`: its own choice; null: that of its runtime, which `template` then is.
    `inline_template`: the text, if it was given as one."""

    workspace_id: str
    chosen: str | None
    template: TemplateVersion
    inline_template: str | None
    warnings: list[str] = []


class TemplatePreview(Struct):
    """What an agent would be told. `text` is byte for byte what the server renders; `tokens` an estimate."""

    template: str
    form: str
    text: str
    tokens: int
    bytes: int
    reply_via: str
    docs_url: str
    stdout_warning: str
    available_tools: list[str]
    warnings: list[str]


class RenderedMessage(Struct):
    """What an agent would be told with one of its last messages; without `text` it would be told nothing."""

    activity_id: str
    kind: str
    summary: str | None
    created_at: str
    text: str | None
    tokens: int


class RenderedMessageList(Struct):
    """What an agent would be told with its last messages, newest first."""

    template: str
    form: str
    messages: list[RenderedMessage]
    warnings: list[str]


class TemplateChoiceBody(Struct, forbid_unknown_fields=True):
    """Exactly one of them: a template by its id, or a text beside the template of the workspace's runtime (or the parts
    of a template)."""

    template_id: str | None = None
    inline_template: str | dict[str, Any] | None = None


class TemplateSavedPayload(Struct, frozen=True, omit_defaults=True):
    """A template of instructions has a new version, or another one is in force, or it is gone (`version` 0).

    `canary`: the version that gets `percent` of the messages."""

    template_id: str
    version: int
    by: str
    canary: int | None = None
    percent: int = 0


class TemplateFailedPayload(Struct, frozen=True):
    """A template could not be rendered: the message went out without instructions."""

    template_id: str
    version: int
    workspace_id: str
    reason: str


class TemplateRolledBackPayload(Struct, frozen=True):
    """A canary was answered less than the version in force, and is ended. Rates from 0 to 1, of so many outcomes."""

    template_id: str
    version: int
    back_to: int
    canary_rate: float
    canary_outcomes: int
    base_rate: float
    base_outcomes: int
