"""Whether a template may be saved, and what it would say. Nothing is written here.

Above: the writer, which saves; the edge, which previews. Below: script, the renderer, the catalogue.
"""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import InvalidTemplate
from molecule_core.ground.text import hidden_character
from molecule_core.instructions import rules
from molecule_core.instructions.catalogue import Catalogue
from molecule_core.instructions.model import Facts, Form, Parts, Seat, Template
from molecule_core.instructions.render import Renderer
from molecule_core.instructions.script import ALONE, MERGED, Wrong, read

_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_MOST_LINES = 50
KINDS = (
    "canvas_user",
    "peer_agent",
    "delegation",
    "delegation_result",
    "approval_request",
    "approval_decision",
    "broadcast",
    "chat_upload_receive",
    "system",
)
_ID = "0197f3a2-7c1e-7b10-8c3a-2f6d5a9b1e77"
EXAMPLE = Facts(
    kind="canvas_user",
    peer_name="Research",
    peer_role="Finds things out",
    workspace_id=_ID,
    reply_handle="m17-k3f9q",
    intent="request",
    due_at="2026-01-01T12:02:00Z",
)
"""A message as it might be, for previews."""
_LONGEST = Facts(
    peer_id=_ID,
    peer_name="\U0001f600" * 120,  # four bytes each
    peer_role="\U0001f600" * 500,
    workspace_id=_ID,
    arrival_workspace_id=_ID,
    reply_handle="m1000000-k3f9q",
    delegation_id="d" * 128,
    user_id=_ID,
    due_at="2026-01-01T12:02:00.000000Z",
    attempt=12,
    attachments=("f" * 255,) * 10,
    reminder=True,
)


class Checks:
    """Looks at templates before they are saved."""

    def __init__(self, catalogue: Catalogue, *, public_url: str, limits: Limits) -> None:
        self._catalogue = catalogue
        self._public_url = public_url
        self._limits = limits

    def check(self, template: Template) -> list[str]:
        """Whether it may be saved; what its author may not have meant. Raises InvalidTemplate."""
        warnings = [*self._texts(template.parts)]
        self._names(template.parts)
        self._family(template)
        self._size(template)
        return warnings

    def trial(self, template: Template) -> Renderer:
        """Renders as if this version were in force."""
        return Renderer(self._catalogue.with_trial(template), public_url=self._public_url, limits=self._limits)

    def _texts(self, parts: Parts) -> Iterator[str]:
        try:
            found = read(parts, self._limits, ALONE)
        except Wrong as wrong:
            raise InvalidTemplate(part=wrong.part, line=wrong.line, reason=wrong.reason) from None
        for part, parsed in found:
            yield from (f"{part}, {warning}" for warning in parsed.warnings)

    def _names(self, parts: Parts) -> None:
        for name in parts.blocks:
            if name not in rules.BLOCKS:
                raise _refused(
                    f"blocks.{_shown(name)}", f"there is no such block; there are: {', '.join(rules.BLOCKS)}"
                )
        for name in (*parts.tools, *((parts.reply_tool,) if parts.reply_tool is not None else ())):
            if not _TOOL_NAME.fullmatch(name):
                raise _refused("tools", f"{_shown(name)!r} is no name of a tool: letters, digits, _ . -")
        if len(parts.tools) > rules.MOST_TOOLS:
            raise _refused("tools", f"there are {len(parts.tools)} tools; at most {rules.MOST_TOOLS} are taken")
        if len(parts.lines) > _MOST_LINES:
            raise _refused("lines", f"there are {len(parts.lines)} lines; at most {_MOST_LINES} are taken")
        self._plain("docs_url", parts.docs_url, self._limits.url_length)
        self._plain("stdout_warning", parts.stdout_warning, self._limits.short_text_length)
        if parts.docs_url is not None and not re.match(r"https?://[^/]|/(?!/)", parts.docs_url):
            raise _refused("docs_url", "it must begin with https://, http:// or, for a page of this server, with /")

    def _plain(self, part: str, text: str | None, most: int) -> None:
        if text is None:
            return
        if len(text) > most:
            raise _refused(part, f"it has {len(text)} characters; at most {most} are taken")
        if bad := hidden_character(text):
            raise _refused(part, f"it holds the hidden character U+{ord(bad):04X}; remove it")

    def _family(self, template: Template) -> None:
        """What it extends, and whether they say together what must be said."""
        for default in rules.DEFAULT_IDS:
            found, wrong = rules.chain(
                template, lambda id_: self._catalogue.find(template.org_id, id_), default_id=default
            )
            if wrong:
                raise _refused("extends", wrong)
            merged = rules.merged(found)
            missing = [name for name in rules.NEEDED if not merged.blocks.get(name, "").strip()]
            if missing:
                raise _refused(f"blocks.{missing[0]}", "it extends nothing, and so must say this itself")
            try:
                read(merged, self._limits, MERGED)
            except Wrong as text:
                raise _refused("extends", f"with what it extends: {text.reason}") from None

    def _size(self, template: Template) -> None:
        """Whether it stays within the bound for the longest of messages, for every kind and form."""
        renderer, failures = self.trial(template), list[str]()
        renderer.when_failed = lambda _seat, _choice, reason: failures.append(reason)
        every = rules.available((*rules.KNOWN_TOOLS, *template.parts.tools), template.parts.tools)
        for tools, by_command in ((every, False), ((), False), ((), True)):
            seat = Seat(_ID, template.org_id, "claude-code", template.id, tools, True, by_command)
            for facts in _worst():
                for form in Form:
                    renderer.render(seat, template.choice, form, facts)
                    if failures:
                        raise _refused("", f"for a message of the kind {facts.kind}, {failures[0]}")


def _worst() -> Iterator[Facts]:
    for kind in KINDS:
        for intent in ("request", "inform"):
            yield replace(_LONGEST, kind=kind, intent=intent)


def _refused(part: str, reason: str) -> InvalidTemplate:
    return InvalidTemplate(part=part or "template", line=1, reason=reason)


def _shown(name: str) -> str:
    return name if len(name) <= 40 else name[:40] + "…"
