"""Instruction templates as clients read and write them."""

from typing import Any

from msgspec import Struct


class TemplateParts(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The parts that a template defines itself; the rest comes from the template that it extends.

    `tools` and `lines` are appended, all others replace. `lines` and `blocks` are in the template language
    (docs/reference/templates.md)."""

    reply_tool: str | None = None
    docs_url: str | None = None
    stdout_warning: str | None = None
    tools: list[str] = []
    lines: list[str] = []
    blocks: dict[str, str] = {}


class TemplateVersion(Struct):
    """A version of a template. Times are RFC 3339.

    `runtime`: the runtime it is meant for; empty: any. `extends`: the template whose parts it inherits; empty: that
    of the workspace's runtime; null: none. `built_in`: shipped with Molecule."""

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
    """A template available to an organisation, in the version in force.

    `canary`: another version, which gets `percent` of the messages. `edited`: a built-in template that this
    organisation has changed. `used_by`: number of workspaces that chose it; `default_for`: number that have it
    because of their runtime."""

    template: TemplateVersion
    canary: int | None
    percent: int
    since: str
    edited: bool
    used_by: int
    default_for: int


class TemplateDetail(Struct):
    """A template with `base`: the merged parts of the templates it extends, for a workspace of its runtime."""

    row: TemplateRow
    base: TemplateParts


class SaveTemplateResponse(Struct):
    """The saved version. `warnings`: probable mistakes of its author."""

    template: TemplateVersion
    warnings: list[str]


class WorkspaceTemplate(Struct):
    """The template in use for a workspace.

    `chosen`: its own choice; null: `template` is that of its runtime. `inline_template`: the text, if it was given
    as text."""

    workspace_id: str
    chosen: str | None
    template: TemplateVersion
    inline_template: str | None
    warnings: list[str] = []


class TemplatePreview(Struct):
    """A preview of the instructions for an agent. `text` is byte for byte what is delivered; `tokens` an estimate."""

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
    """A preview of the instructions for one of the agent's last messages. `text` is null if there would be none."""

    activity_id: str
    kind: str
    summary: str | None
    created_at: str
    text: str | None
    tokens: int


class RenderedMessageList(Struct):
    """Previews of the instructions for an agent's last messages, newest first."""

    template: str
    form: str
    messages: list[RenderedMessage]
    warnings: list[str]


class TemplateChoiceBody(Struct, forbid_unknown_fields=True):
    """Exactly one of the two members.

    `template_id`: a template; `inline_template`: a text that is added to the template of the workspace's runtime, or
    the parts of a template."""

    template_id: str | None = None
    inline_template: str | dict[str, Any] | None = None


class TemplateSavedPayload(Struct, frozen=True, omit_defaults=True):
    """An instruction template has a new version, another version is in force, or it was deleted (`version` 0).

    `canary`: the version that gets `percent` of the messages."""

    template_id: str
    version: int
    by: str
    canary: int | None = None
    percent: int = 0


class TemplateFailedPayload(Struct, frozen=True):
    """A template could not be rendered. The message was delivered without instructions."""

    template_id: str
    version: int
    workspace_id: str
    reason: str


class TemplateRolledBackPayload(Struct, frozen=True):
    """A canary was answered less often than the version in force and was rolled back.

    Rates are from 0 to 1, of the given number of outcomes."""

    template_id: str
    version: int
    back_to: int
    canary_rate: float
    canary_outcomes: int
    base_rate: float
    base_outcomes: int
