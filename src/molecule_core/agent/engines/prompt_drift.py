"""Describes how an agent's prompt has changed since a thread was started with it. Pure.

A thread keeps its base; the difference is added as a note before its next turn, once. Each note compares with the base
and not with earlier notes, so that the newest one alone is valid.
"""

import hashlib
import re
from collections.abc import Sequence

from molecule_core.agent.prompt.assembly import Prompt
from molecule_core.client.threads import EngineThread
from molecule_core.tools.host_context import DELEGATION_FAILED
from molecule_core.wire.schemas.threads import ModelContextItem

ORIGIN_PREFIX = "prompt:"
"""Prefix of the origin of such a note; the hash of the described prompt follows."""
NOTE = "context_note"
_MAX_BYTES = 12_000
_PEER = re.compile(r'^<peer id="([^"]*)"', re.MULTILINE)
_NAME = re.compile(r'^<peer id="([^"]*)"[^\n]*\nname: ([^\n]*)', re.MULTILINE)
_HEADING = re.compile(r"^## (.{1,100})$", re.MULTILINE)
_CLOSING_HEADING = _HEADING.findall(DELEGATION_FAILED)
_ONLY_REMOVED = "some of them are no longer valid, and there are no new ones. Use your tools for the current state."
_HEAD = "peers changed: "
_UNCHANGED = "peers changed: your original instructions are valid again in full. Ignore earlier notes like this one."
_CHANGED_INTRO = (
    "your instructions have changed since the beginning of this conversation. These are the differences (ignore "
    "earlier notes like this one; everything else is still valid):"
)


def text_hash(text: str) -> str:
    """Return the hash of a text as the server computes it."""
    return hashlib.sha256(text.encode()).hexdigest()


def drift_note(thread: EngineThread, items: Sequence[ModelContextItem], prompt: Prompt) -> tuple[str, str] | None:
    """Return the text and origin of a note, if the model does not know the current prompt.

    A base that is no prompt of the platform (an override, a role, a review) is not compared.
    """
    base = thread.base_instructions
    if _HEADING.findall(base)[-1:] != _CLOSING_HEADING:  # not its text, which differs between versions
        return None
    current_hash = text_hash(prompt.text)
    notes = [each.origin for each in items if each.type == NOTE and each.origin.startswith(ORIGIN_PREFIX)]
    last_origin = notes[-1] if notes else None
    known_hash = text_hash(base) if last_origin is None else last_origin.removeprefix(ORIGIN_PREFIX)
    if known_hash == current_hash:
        return None
    return f"{ORIGIN_PREFIX}{current_hash}", describe_drift(base, prompt)


def describe_drift(base: str, prompt: Prompt) -> str:
    """Describe for a model what is new in a prompt, and which peers and sections of the base are gone."""
    if base == prompt.text:
        return _UNCHANGED
    new = [each.text for each in prompt.sections if each.text not in base]
    names = dict(_NAME.findall(base))
    peer_ids = set(_PEER.findall(prompt.text))
    removed = [f"- {name} ({id_}) is no longer one of your peers" for id_, name in names.items() if id_ not in peer_ids]
    headings = set(_HEADING.findall(prompt.text))
    removed += [f"- the section “{each}” is no longer valid" for each in _HEADING.findall(base) if each not in headings]
    shown, left_out = _truncate("\n\n".join((*removed, *new)) or _ONLY_REMOVED)
    return f"{_HEAD}{_CHANGED_INTRO}\n\n{shown}{left_out}"


def _truncate(text: str) -> tuple[str, str]:
    whole = text.encode()
    if len(whole) <= _MAX_BYTES:
        return text, ""
    return whole[:_MAX_BYTES].decode(errors="ignore"), "\n\n(more has changed; list_peers lists all peers)"
