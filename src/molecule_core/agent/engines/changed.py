"""What has changed of an agent's prompt since a thread was born with it. Pure.

A thread keeps its base; the difference is told as a note before its next turn, once. A note speaks of the base and not
of the notes before it, so that the newest one alone is right. Above: driving. Below: the prompt.
"""

import hashlib
import re
from collections.abc import Sequence

from molecule_core.agent.prompt import Prompt
from molecule_core.agent.prompt_words import FAILED
from molecule_core.client.threads import Thread
from molecule_core.wire.threads import SightItem

ORIGIN = "prompt:"
"""How the origin of such a note begins; the hash of the prompt that it tells about follows."""
NOTE = "context_note"
_MOST = 12_000
_PEER = re.compile(r'^<peer id="([^"]*)"', re.MULTILINE)
_NAME = re.compile(r'^<peer id="([^"]*)"[^\n]*\nname: ([^\n]*)', re.MULTILINE)
_HEADING = re.compile(r"^## (.{1,100})$", re.MULTILINE)
_LESS = "some of it is over, and nothing is new; your tools tell how things are."
_HEAD = "peers changed: "
_SAME = "peers changed: everything is again as your instructions say; what notes before this one said is over."
_AS_NOW = (
    "what you were told at the beginning of this conversation has changed since. Compared with it, this is so now "
    "(notes like this before it are over; all else stands):"
)


def sha_of(text: str) -> str:
    """The name of a text, as the server makes it."""
    return hashlib.sha256(text.encode()).hexdigest()


def note_due(thread: Thread, items: Sequence[SightItem], prompt: Prompt) -> tuple[str, str] | None:
    """The note and its origin, if the model has not been told how its prompt is now. A base that is no prompt of the
    platform (an override, a role, a review) is compared with nothing."""
    base = thread.base_instructions
    if not base.rstrip().endswith(FAILED.rstrip()):
        return None
    now = sha_of(prompt.text)
    notes = [each.origin for each in items if each.type == NOTE and each.origin.startswith(ORIGIN)]
    told = notes[-1] if notes else None
    known = sha_of(base) if told is None else told.removeprefix(ORIGIN)
    if known == now:
        return None
    return f"{ORIGIN}{now}", difference(base, prompt)


def difference(base: str, prompt: Prompt) -> str:
    """What a prompt says that a base does not, and which peers and parts are gone, in words for a model."""
    if base == prompt.text:
        return _SAME
    new = [each.text for each in prompt.sections if each.text not in base]
    names = dict(_NAME.findall(base))
    here = set(_PEER.findall(prompt.text))
    gone = [f"- {name} ({id_}) is no longer among your peers" for id_, name in names.items() if id_ not in here]
    headings = set(_HEADING.findall(prompt.text))
    gone += [f"- what stands under “{each}” is over" for each in _HEADING.findall(base) if each not in headings]
    shown, left_out = _within("\n\n".join((*gone, *new)) or _LESS)
    return f"{_HEAD}{_AS_NOW}\n\n{shown}{left_out}"


def _within(text: str) -> tuple[str, str]:
    whole = text.encode()
    if len(whole) <= _MOST:
        return text, ""
    return whole[:_MOST].decode(errors="ignore"), "\n\n(more has changed; list_peers tells all peers)"
