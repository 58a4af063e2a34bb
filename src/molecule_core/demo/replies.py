"""Texts of the demo agents: notices and answers. Pure."""

import json
import re
from collections.abc import Sequence

from molecule_core.demo import text_analysis
from molecule_core.demo.model import DemoApproval, DemoFile, DemoMessage, DemoPeer, DemoWorkspace
from molecule_core.demo.skills import apply_skill, join_list, quote_start
from molecule_core.wire.schemas.approvals import ApprovalStatus

# 60,000: a character has at most four bytes, so this stays below the 256 KiB limit of a message.
_MAX_LENGTH = 60_000
_HEADING = re.compile(r"^(#{1,5}) ", re.MULTILINE)


def begun_text(delegates: Sequence[DemoPeer]) -> str:
    """Return the notice to a person that work has begun."""
    names = join_list([peer.name for peer in delegates])
    if len(delegates) == 1:
        return f"I forwarded this to {names}. I will send you the answer."
    return f"I am asking {names}. I will answer when all of them have replied."


def waiting_text(request: DemoMessage, why: str) -> str:
    """Return the task that others see while an agent waits."""
    return f"{quote_start(request.text)}: {why}"


def waiting_for_text(names: list[str]) -> str:
    """Return the text that names the delegates that an agent waits for."""
    return f"waiting for {join_list(names)}"


def approval_subject(seat: DemoWorkspace, request: DemoMessage) -> str:
    """Return what needs an approval, in the words of the org file, or ""."""
    stems = text_analysis.stems_of(request.text)
    return join_list([word for word in seat.asks_before if text_analysis.names_phrase(stems, word)])


WAITING_FOR_APPROVAL = "waiting for an approval"
"""Reason shown for work that needs an approval first."""
WORK_WITHDRAWN = "The work was cancelled."
"""Note of a withdrawn approval request."""
NOT_DECIDED_HERE = "I cannot decide this myself."
"""Note of a lead that escalates an approval."""


def approval_asked_text(what: str) -> str:
    """Return the notice to a person that their request needs an approval."""
    return f"This needs an approval ({what}). I have requested it, and will continue when it is decided."


def approval_reason(request: DemoMessage) -> str:
    """Return the reason of an approval request."""
    return f"The request was: {quote_start(request.text)}"


def approval_failed_text(what: str, why: str) -> str:
    """Return the answer if an approval could not be requested."""
    return f"**Not done.** This needs an approval ({what}), and the request for it failed: {why}"


def request_details(request: DemoMessage) -> str:
    """Return the answer to a question about an approval request."""
    return f"I only know the original request: {quote_start(request.text)}"


def decision_text(approval: DemoApproval, what: str) -> str:
    """Return the text to put before an answer that needed an approval."""
    if approval.status == ApprovalStatus.APPROVED:
        return f"**Approved** by {approval.by or 'a person'} ({what})."
    words = {"denied": f"was denied by {approval.by or 'a person'}", "expired": "expired"}
    why = f": {approval.note}" if approval.note else ""
    return f"**Not done.** The required approval ({what}) {words.get(approval.status, 'was withdrawn')}{why}."


def work_steps(seat: DemoWorkspace) -> list[str]:
    """Return the steps in which a specialist handles a request."""
    return ["reading the request", *(skill.title for skill in seat.craft)]


def answer_text(seat: DemoWorkspace, request: DemoMessage, results: Sequence[tuple[str, DemoMessage]]) -> str:
    """Return the answer to a request, with the results of the delegates by their names.

    A delegate without a result is named with the reason; no answer is invented."""
    parts = [] if request.sender else _introduction(request, results)
    if request.text.strip():
        parts += [apply_skill(skill, request.text) for skill in seat.craft]
    max_length = _MAX_LENGTH // max(1, len(results))
    parts += [f"### {name}\n\n{_result_text(name, result, max_length)}" for name, result in results]
    return "\n\n".join(parts)[:_MAX_LENGTH] or _no_answer_text(seat, request)


def answer_file(seat: DemoWorkspace, request: DemoMessage) -> DemoFile | None:
    """Return the file that the answer to a peer delivers, if any. A hasty agent forgets its parts the first time."""
    if not seat.delivers:
        return None
    content: dict[str, object] = {"request": request.text[:_MAX_LENGTH]}
    if request.is_returned or not seat.hasty:
        content["parts"] = [
            {"title": skill.title, "text": apply_skill(skill, request.text)[:_MAX_LENGTH]} for skill in seat.craft
        ]
    return DemoFile(seat.delivers, json.dumps(content, indent=2, ensure_ascii=False))


def _introduction(request: DemoMessage, results: Sequence[tuple[str, DemoMessage]]) -> list[str]:
    if not results:
        return []
    answered = join_list([name for name, result in results if not result.is_failed])
    silent = join_list([name for name, result in results if result.is_failed])
    if not answered:
        return [f"No answers to {quote_start(request.text)} from {silent}:"]
    missing = f", no answer from {silent}" if silent else ""
    return [f"Answers to {quote_start(request.text)} from {answered}{missing}:"]


def _result_text(name: str, result: DemoMessage, max_length: int) -> str:
    text = _lower_headings(result.text[:max_length])
    return f"**No answer from {name}.** {text}" if result.is_failed else text


def _no_answer_text(seat: DemoWorkspace, request: DemoMessage) -> str:
    if not request.text.strip():
        return "This message contains no text, and I can only read text."
    return f"I have no answer to {quote_start(request.text)}. I am {seat.name}: {seat.role}"


def _lower_headings(text: str) -> str:
    """Return a text with each heading one level lower, to fit below another."""
    return _HEADING.sub(r"#\1 ", text)
