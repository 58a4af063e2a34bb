"""Renders a template and the variables of a message to instructions.

A text is parsed and compiled once for each version. What does not change from message to message (tools, kind, form) is
also rendered once, for each combination of condition outcomes: a skeleton. A message then costs the look-up of its
skeleton and one formatting.

Called by messages and api, which put the text on the wire."""

import logging
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

from msgspec import Struct

from molecule_core.common.limits import Limits
from molecule_core.instructions import rules
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.language import ast
from molecule_core.instructions.language.compiler import (
    VALUE_PLACEHOLDERS,
    CompiledTemplate,
    RenderContext,
    TemplateError,
    TemplateTooLarge,
    ValuePlaceholder,
    field_getter,
)
from molecule_core.instructions.model import AgentProfile, MessageContext, RenderedText, TemplateVersionRef, Verbosity
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.agent_cards import DECIDE_COMMAND, REPLY_BY_RESPONSE, REPLY_COMMAND

_log = logging.getLogger("molecule.instructions")
# Maximum sizes of the caches. Above them a cache is cleared; rebuilding an entry takes a few microseconds.
_MAX_PROFILES, _MAX_PLANS, _MAX_SKELETONS = 100_000, 4_096, 64
# A UTF-8 character has at most 4 bytes, so a text below a quarter of the limit need not be measured.
_MAX_CHARACTER_BYTES = 4

# Looking up members of an enumeration is slow.
_FULL, _COMPACT = Verbosity.FULL, Verbosity.COMPACT

_RESPONSE_NOTE = "Your HTTP response is the answer. Do not send the same answer with a tool."

FailureListener = Callable[[AgentProfile, TemplateVersionRef, str], None]
# Tokens in four characters of a value. Values are ids and times, which have few words.
_TOKENS_PER_FOUR_CHARACTERS = 3

# -- a template, rendered for an agent ---------------------------------------------------------------------------------


class _Skeleton:
    """Text with placeholders for the values of a message: every other item of `pieces` is one.

    Most texts have one placeholder, between the two `ends`."""

    __slots__ = ("ends", "get_values", "length", "max_bytes", "pieces", "reply_via", "tokens")

    def __init__(self, context: RenderContext, reply_via: str, max_bytes: int) -> None:
        self.reply_via = reply_via
        self.max_bytes = max_bytes
        self.tokens = context.tokens
        self.pieces = _split_pieces(context.out)
        names = tuple(self.pieces[1::2])
        self.length = sum(map(len, self.pieces[::2]))
        self.ends = (self.pieces[0], self.pieces[2]) if len(names) == 1 and names[0] != "attempt" else None
        get_values = field_getter(names)
        self.get_values: Callable[[MessageContext], Any] = (
            get_values  # returns a text if `ends` is set, else a tuple of texts
        )
        if self.ends is not None:
            self.get_values = attrgetter(names[0])
        elif "attempt" in names:
            self.get_values = lambda message: tuple(map(str, get_values(message)))

    def fill(self, message: MessageContext) -> str:
        """Return the text for one message."""
        values = self.get_values(message)
        joined = values if self.ends is not None else "".join(values)
        if self.length + len(joined) > self.max_bytes:  # a character has at least one byte
            raise TemplateTooLarge(f"its text is larger than the limit of {self.max_bytes} bytes")
        if self.ends is not None:
            before, after = self.ends
            return f"{before}{joined if joined.isprintable() else sanitize_line(joined)}{after}"
        pieces = self.pieces.copy()
        pieces[1::2] = values if joined.isprintable() else map(sanitize_line, values)
        return "".join(pieces)  # control: values-not-parsed


def _split_pieces(out: list[str]) -> list[str]:
    """Return text and placeholders alternately, without empty lines."""
    pieces: list[str] = []
    since = 0
    for position, each in enumerate(out):
        if type(each) is ValuePlaceholder:
            pieces += (_join_text(out[since:position]), each)
            since = position + 1
    pieces.append(_join_text(out[since:]))
    pieces[0], pieces[-1] = pieces[0].lstrip("\n"), pieces[-1].rstrip()
    return pieces


def _join_text(parts: list[str]) -> str:
    joined = "".join(parts)
    while "\n\n" in joined:
        joined = joined.replace("\n\n", "\n")
    return joined


def sanitize_line(value: str) -> str:
    """Return a value on one line, without invisible characters."""
    if value.isprintable():
        return value
    return " ".join("".join(each if each.isprintable() else " " for each in value).split())


class _RenderPlan:
    """One version of a template, for agents of one organisation and runtime with the same tools."""

    def __init__(self, template: CompiledTemplate, profile: AgentProfile, public_url: str, chain: str) -> None:
        parts = template.parts
        url = parts.docs_url or ""
        self.docs_url = public_url + url if url.startswith("/") else url
        # A template that does not mention these two treats their agents like others.
        self._by_command = profile.answers_by_command and template.tests_command
        self._by_response = profile.answers_by_response and template.tests_response
        self.stdout_warning = _RESPONSE_NOTE if self._by_response else parts.stdout_warning or ""
        self._template = template
        self._preferred_reply_tool = parts.reply_tool or rules.REPLY_TOOL
        self._profile = profile
        self.tools = rules.usable_tools(profile.tools, (self._preferred_reply_tool, *parts.tools))
        tool_names = tuple([rules.tool_name_for(name, profile.runtime) for name in self.tools])
        reply_ways = [REPLY_COMMAND] if self._by_command else [] if profile.has_tool_list else ["?"]
        reply_ways += [REPLY_BY_RESPONSE] if self._by_response else []
        rendered = (chain, self.docs_url, *tool_names, *reply_ways)
        self.static_key = f"{rules.hash64(*rendered):016x}"
        self._tool_index = {name: (position, name, tool_names[position]) for position, name in enumerate(self.tools)}
        # What is written for each variable; message variables are placeholders.
        self._rendered: dict[str, Any] = {
            **VALUE_PLACEHOLDERS,
            "docs_url": self.docs_url,
            "available_tools": tool_names,
        }
        # An agent without the tool cannot use a handle.
        if rules.REPLY_BY_HANDLE_TOOL not in self.tools and not self._by_command:
            self._rendered["reply_handle"] = ""
        self._reply_tools: dict[str, tuple[str, str]] = {}
        self._full: dict[Any, _Skeleton] = {}
        self._compact: dict[Any, _Skeleton] = {}
        self._delta: dict[Any, _Skeleton] = {}

    def skeleton_for(self, verbosity: Verbosity, message: MessageContext) -> _Skeleton:
        """Return the skeleton for a message, cached."""
        template = self._template
        if verbosity is _FULL:
            known, variant_key = self._full, template.full_variant_key
        else:
            known, variant_key = (self._compact if verbosity is _COMPACT else self._delta), template.short_variant_key
        if template.lists_attachments and message.attachments:  # the skeleton would contain their names
            return self.build_skeleton(verbosity, message)
        a, b, c, d, e, f = variant_key.get_values(message)
        # control: render-cache-key
        key: Any = (message.kind, message.intent, message.reminder, not a, not b, not c, not d, not e, not f)
        if variant_key.get_outcomes is not None:
            key = (*key, *variant_key.get_outcomes(message))
        found = known.get(key)
        if found is None:
            if len(known) >= _MAX_SKELETONS:
                known.clear()
            found = known[key] = self.build_skeleton(verbosity, message)
        return found

    def build_skeleton(self, verbosity: Verbosity, message: MessageContext) -> _Skeleton:
        """Return the skeleton for a message, not cached."""
        bare, spelled_name = self._reply_tool_for(message.kind)
        values = dict(zip(ast.MESSAGE_VARIABLES, _message_values(message), strict=True))
        values["attempt"] = str(message.attempt)
        rendered = self._rendered.copy()
        if rendered["reply_handle"] == "":
            values["reply_handle"] = ""
        if message.attachments:
            values["attachments"] = tuple(map(sanitize_line, message.attachments))
        rendered["attachments"] = values["attachments"]
        values["kind"] = rendered["kind"] = message.kind
        values["intent"] = rendered["intent"] = message.intent
        values["reply_tool"], rendered["reply_tool"] = bare, spelled_name
        values["docs_url"], values["available_tools"] = self.docs_url, self.tools
        limits = self._template.limits
        context = RenderContext(values, rendered, self._tool_index, limits)
        for step in self._template.steps(verbosity, reminder=message.reminder):
            step(context)
            context.out.append("\n")
        return _Skeleton(context, spelled_name, limits.instruction_bytes)

    def _reply_tool_for(self, kind: str) -> tuple[str, str]:
        """Return the tool that answers this kind of message: its bare name and the runtime's spelling."""
        found = self._reply_tools.get(kind)
        if found is None:
            profile = self._profile
            is_decision = kind == MessageKind.APPROVAL_REQUEST
            found = (REPLY_COMMAND, DECIDE_COMMAND if is_decision else REPLY_COMMAND)
            if self._by_response and not is_decision:
                found = (REPLY_BY_RESPONSE, REPLY_BY_RESPONSE)
            elif not self._by_command:
                bare = rules.choose_reply_tool(
                    self._preferred_reply_tool, kind, profile.tools, has_tool_list=profile.has_tool_list
                )
                found = (bare, rules.tool_name_for(bare, profile.runtime) if bare else "")
            if len(self._reply_tools) < _MAX_SKELETONS:
                self._reply_tools[kind] = found
        return found


_message_values = field_getter(ast.MESSAGE_VARIABLES)


# -- renderer ----------------------------------------------------------------------------------------------------------


@lru_cache(_MAX_PROFILES)
def agent_profile(
    workspace_id: str, org_id: str, runtime: str, template_id: str | None, card: str | None, uses_push: bool = False
) -> AgentProfile:
    """Return the profile of a workspace's agent; `card` is JSON, `uses_push`: messages are pushed to it.

    It is the same object as long as nothing changes, which the renderer finds fastest."""
    return AgentProfile(workspace_id, org_id, runtime, template_id, *rules.tools_from_card(card), uses_push)


class Renderer:
    """Renders instructions. `failure_count` counts templates that could not be rendered; `on_failure` gets each."""

    def __init__(self, catalogue: TemplateCatalogue, *, public_url: str, limits: Limits) -> None:
        self._catalogue = catalogue
        self._public_url = public_url.rstrip("/")
        self._limits = limits
        self._unchecked_length = limits.instruction_bytes // _MAX_CHARACTER_BYTES
        self._seen_change_count = -1
        self._chosen_versions: dict[AgentProfile, _ChosenVersions] = {}
        self._plan_by_profile: dict[tuple[AgentProfile, TemplateVersionRef], _RenderPlan] = {}
        self._plans: dict[Any, _RenderPlan] = {}
        self._templates: dict[tuple[str, str, TemplateVersionRef], tuple[CompiledTemplate, str] | TemplateError] = {}
        self.failure_count = 0
        self.on_failure: FailureListener = lambda _profile, _choice, _reason: None

    def choose_version(self, profile: AgentProfile, activity_id: str, number: int | None = None) -> TemplateVersionRef:
        """Return the version for a message, always the same for the same message.

        `number`: the message's number in its inbox."""
        self._refresh()
        chosen = self._chosen_versions.get(profile)
        if chosen is None:
            if len(self._chosen_versions) >= _MAX_PROFILES:
                self._chosen_versions.clear()
            chosen = self._chosen_versions[profile] = self._choose_versions(profile)
        if chosen.canary is None:
            return chosen.base
        canary = rules.is_in_canary_share(chosen.percent, chosen.offset, number, activity_id)
        return chosen.canary if canary else chosen.base

    def static_key(self, profile: AgentProfile, choice: TemplateVersionRef) -> str:
        """Return a hash of what does not change from message to message. If it differs, a delta is due."""
        return self._plan_for(profile, choice).static_key

    def render(
        self, profile: AgentProfile, choice: TemplateVersionRef, verbosity: Verbosity, message: MessageContext
    ) -> RenderedText | None:
        """Return the instructions for one message, or None after a failure, which is reported."""
        try:
            plan = (
                self._plan_by_profile.get((profile, choice))
                if self._seen_change_count == self._catalogue.change_count
                else None
            )
            if plan is None:
                plan = self._plan_for(profile, choice)
            skeleton = plan.skeleton_for(verbosity, message)
            text = skeleton.fill(message)
        except Exception as error:
            self.record_failure(profile, choice, error)
            return None
        if len(text) > self._unchecked_length and self._is_too_long(text):  # control: text-length
            self._report_failure(
                profile, choice, f"its text is larger than the limit of {self._limits.instruction_bytes} bytes"
            )
            return None
        return RenderedText(
            choice,
            verbosity,
            text,
            skeleton.reply_via,
            plan.docs_url,
            plan.stdout_warning,
            plan.tools,
            skeleton.tokens + (len(text) - skeleton.length) * _TOKENS_PER_FOUR_CHARACTERS // 4,
        )

    def render_uncached(
        self, profile: AgentProfile, choice: TemplateVersionRef, verbosity: Verbosity, message: MessageContext
    ) -> str:
        """Return the text for one message without using cached skeletons."""
        return self._plan_for(profile, choice).build_skeleton(verbosity, message).fill(message)

    def clear_caches(self) -> None:
        """Clear all caches."""
        self._chosen_versions.clear()
        self._plan_by_profile.clear()
        self._plans.clear()
        self._templates.clear()

    def _refresh(self) -> None:
        if self._seen_change_count != self._catalogue.change_count:
            self._seen_change_count = self._catalogue.change_count
            self.clear_caches()

    def _is_too_long(self, text: str) -> bool:
        return len(text.encode("utf-8", "surrogatepass")) > self._limits.instruction_bytes

    def record_failure(self, profile: AgentProfile, choice: TemplateVersionRef | None, error: Exception) -> None:
        """Record that a message gets no instructions. `choice` is None if no version could be chosen."""
        ref = choice or TemplateVersionRef(
            profile.template_id or rules.default_template_id(profile.runtime), 0, profile.org_id
        )
        self._report_failure(
            profile, ref, str(error) if isinstance(error, TemplateTooLarge) else f"{type(error).__name__}: {error}"
        )

    def _report_failure(self, profile: AgentProfile, choice: TemplateVersionRef, reason: str) -> None:
        self.failure_count += 1
        try:
            self.on_failure(profile, choice, reason)
        except Exception:  # a failing listener must not cause another failure
            _log.exception("the failure of the template %s could not be reported", choice.name)

    def _choose_versions(self, profile: AgentProfile) -> "_ChosenVersions":
        for template_id in (profile.template_id, rules.default_template_id(profile.runtime), rules.GENERIC_TEMPLATE):
            choice = self._catalogue.active_version(profile.org_id, template_id) if template_id else None
            base = None if choice is None else self._catalogue.find_version(choice.org_id, choice.id, choice.version)
            if choice is None or base is None:
                continue
            canary = self._catalogue.find_version(choice.org_id, choice.id, choice.canary) if choice.canary else None
            position = rules.hash64(profile.workspace_id, choice.id, str(choice.canary))
            return _ChosenVersions(base.ref, canary.ref if canary else None, choice.percent, position)
        raise LookupError("no template exists")

    def _plan_for(self, profile: AgentProfile, choice: TemplateVersionRef) -> _RenderPlan:
        self._refresh()
        found = self._plan_by_profile.get((profile, choice))
        if found is None:
            if len(self._plan_by_profile) >= _MAX_PROFILES:
                self._plan_by_profile.clear()
            found = self._plan_by_profile[profile, choice] = self._shared_plan(profile, choice)
        return found

    def _shared_plan(self, profile: AgentProfile, choice: TemplateVersionRef) -> _RenderPlan:
        key = (
            profile.org_id,
            choice,
            profile.runtime,
            profile.tools,
            profile.has_tool_list,
            profile.answers_by_command,
            profile.answers_by_response,
        )
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            template, chain = self._compiled_template(profile, choice)
            found = self._plans[key] = _RenderPlan(template, profile, self._public_url, chain)
        return found

    def _compiled_template(self, profile: AgentProfile, choice: TemplateVersionRef) -> tuple[CompiledTemplate, str]:
        """Return a version merged with those it extends, compiled, and their names."""
        org_id, default_id = profile.org_id, rules.default_template_id(profile.runtime)
        found = self._templates.get((org_id, default_id, choice))
        if found is None:
            leaf = self._catalogue.find_by_ref(choice)
            if leaf is None:
                raise LookupError(f"{choice.name} no longer exists")
            templates, _ = rules.inheritance_chain(
                leaf, lambda id_: self._catalogue.find_active_template(org_id, id_), default_id=default_id
            )
            template_names = " ".join(f"{each.org_id}/{each.ref.name}" for each in templates)
            try:
                found = (CompiledTemplate(rules.merge_content(templates), self._limits), template_names)
            except TemplateError as error:  # cached, so that an invalid template is not compiled for each message
                found = error
            self._templates[org_id, default_id, choice] = found
        if isinstance(found, TemplateError):
            raise found.with_traceback(None)
        return found


class _ChosenVersions(Struct, frozen=True):
    """The versions that an agent gets."""

    base: TemplateVersionRef
    canary: TemplateVersionRef | None
    percent: int
    offset: int
