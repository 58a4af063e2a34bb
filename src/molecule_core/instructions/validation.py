"""Checks templates before they are saved. Writes nothing."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from molecule_core.common.errors import InvalidTemplate
from molecule_core.common.limits import Limits
from molecule_core.common.text import find_hidden_character
from molecule_core.instructions import rules
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.language.compiler import ALONE_FACTOR, MERGED_FACTOR, TemplateError, parse_content
from molecule_core.instructions.model import AgentProfile, MessageContext, Template, TemplateContent, Verbosity
from molecule_core.instructions.render import Renderer
from molecule_core.wire.schemas.activity import Intent, MessageKind
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES

_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_MAX_LINES = 50
_EXAMPLE_ID = "0197f3a2-7c1e-7b10-8c3a-2f6d5a9b1e77"
EXAMPLE_MESSAGE = MessageContext(
    kind=MessageKind.USER,
    peer_name="Research",
    peer_role="Finds things out",
    workspace_id=_EXAMPLE_ID,
    reply_handle="m17-k3f9q",
    intent=Intent.REQUEST,
    due_at="2026-01-01T12:02:00Z",
)
"""An example message, for previews."""
_LONGEST_MESSAGE = MessageContext(
    peer_id=_EXAMPLE_ID,
    peer_name="\U0001f600" * 120,  # 4 bytes each
    peer_role="\U0001f600" * 500,
    workspace_id=_EXAMPLE_ID,
    arrival_workspace_id=_EXAMPLE_ID,
    reply_handle="m1000000-k3f9q",
    delegation_id="d" * 128,
    user_id=_EXAMPLE_ID,
    due_at="2026-01-01T12:02:00.000000Z",
    attempt=12,
    attachments=("f" * 255,) * 10,
    reminder=True,
)


class TemplateValidator:
    """Validates templates before they are saved."""

    def __init__(self, catalogue: TemplateCatalogue, *, public_url: str, limits: Limits) -> None:
        self._catalogue = catalogue
        self._public_url = public_url
        self._limits = limits

    def validate_template(self, template: Template) -> list[str]:
        """Validate a template and return warnings for its author. Raises InvalidTemplate."""
        warnings = [*self._check_texts(template.parts)]
        self._check_names(template.parts)
        self._check_inheritance(template)
        self._check_size(template)
        return warnings

    def candidate_renderer(self, template: Template) -> Renderer:
        """Return a renderer in which this version is active."""
        return Renderer(self._catalogue.with_candidate(template), public_url=self._public_url, limits=self._limits)

    def _check_texts(self, parts: TemplateContent) -> Iterator[str]:
        try:
            found = parse_content(parts, self._limits, ALONE_FACTOR)
        except TemplateError as error:
            raise InvalidTemplate(part=error.part, line=error.line, reason=error.reason) from None
        for part, parsed in found:
            yield from (f"{part}, {warning}" for warning in parsed.warnings)

    def _check_names(self, parts: TemplateContent) -> None:
        for name in parts.blocks:
            if name not in rules.BLOCKS:
                raise _template_error(
                    f"blocks.{_abbreviated(name)}",
                    f"the template cannot have this block. Use one of: {', '.join(rules.BLOCKS)}.",
                )
        for name in (*parts.tools, *((parts.reply_tool,) if parts.reply_tool is not None else ())):
            if not _TOOL_NAME.fullmatch(name):
                raise _template_error(
                    "tools", f"{_abbreviated(name)!r} is not the name of a tool. Use letters, digits, _ . and -."
                )
        if len(parts.tools) > rules.MAX_TOOLS:
            raise _template_error(
                "tools", f"a template cannot have {len(parts.tools)} tools. Use at most {rules.MAX_TOOLS}."
            )
        if len(parts.lines) > _MAX_LINES:
            raise _template_error(
                "lines", f"a template cannot have {len(parts.lines)} lines. Use at most {_MAX_LINES}."
            )
        self._check_plain_text("docs_url", parts.docs_url, self._limits.url_length)
        self._check_plain_text("stdout_warning", parts.stdout_warning, self._limits.short_text_length)
        if parts.docs_url is not None and not re.match(r"https?://[^/]|/(?!/)", parts.docs_url):
            raise _template_error(
                "docs_url",
                "docs_url is not valid. Use https://, http:// or, for a page of this server, a path that begins "
                "with /.",
            )

    def _check_plain_text(self, part: str, text: str | None, max_length: int) -> None:
        if text is None:
            return
        if len(text) > max_length:
            raise _template_error(part, f"{part} cannot have {len(text)} characters. Use at most {max_length}.")
        if hidden := find_hidden_character(text):
            raise _template_error(part, f"{part} cannot have the hidden character U+{ord(hidden):04X}. Remove it.")

    def _check_inheritance(self, template: Template) -> None:
        """Check what the template extends and that the required blocks exist."""
        for default in rules.DEFAULT_IDS:
            found, error = rules.inheritance_chain(
                template, lambda id_: self._catalogue.find_active_template(template.org_id, id_), default_id=default
            )
            if error:
                raise _template_error("extends", error)
            merged = rules.merge_content(found)
            missing = [name for name in rules.REQUIRED_BLOCKS if not merged.blocks.get(name, "").strip()]
            if missing:
                raise _template_error(
                    f"blocks.{missing[0]}",
                    "a template that extends no other must have this block. Add it, or extend a template.",
                )
            try:
                parse_content(merged, self._limits, MERGED_FACTOR)
            except TemplateError as text:
                raise _template_error(
                    "extends", f"the template together with those it extends is not valid: {text.reason}"
                ) from None

    def _check_size(self, template: Template) -> None:
        """Check the size limit with the longest messages of every kind and form."""
        renderer, failures = self.candidate_renderer(template), list[str]()
        renderer.on_failure = lambda _profile, _choice, reason: failures.append(reason)
        every = rules.usable_tools((*ALL_TOOL_NAMES, *template.parts.tools), template.parts.tools)
        kinds_of_agent = ((every, False, False), (every, False, True), ((), False, False), ((), True, False))
        for tools, by_command, by_response in kinds_of_agent:
            profile = AgentProfile(
                _EXAMPLE_ID, template.org_id, "claude-code", template.id, tools, True, by_command, by_response
            )
            for message in _longest_messages():
                for verbosity in Verbosity:
                    renderer.render(profile, template.ref, verbosity, message)
                    if failures:
                        raise _template_error(
                            "", f"for a message of the kind {message.kind}, {failures[0]}. Shorten the template."
                        )


def _longest_messages() -> Iterator[MessageContext]:
    for kind in MessageKind:
        for intent in (Intent.REQUEST, Intent.INFORM):
            yield replace(_LONGEST_MESSAGE, kind=kind, intent=intent)


def _template_error(part: str, reason: str) -> InvalidTemplate:
    return InvalidTemplate(part=part or "template", line=1, reason=reason)


def _abbreviated(name: str) -> str:
    return name if len(name) <= 40 else name[:40] + "…"
