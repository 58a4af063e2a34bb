"""What an agent of the company says: that it has begun, and its answer. Pure."""

import re
from collections.abc import Sequence

from molecule_core.demo import reading
from molecule_core.demo.crafts import joined, practise, quoted
from molecule_core.demo.model import Approval, Message, Peer, Seat

# A character has at most four bytes: this stays below the 256 KiB that a message may have.
_MOST = 60_000
_HEADING = re.compile(r"^(#{1,5}) ", re.MULTILINE)


def begun(asked: Sequence[Peer]) -> str:
    """What a person is told at once."""
    names = joined([peer.name for peer in asked])
    if len(asked) == 1:
        return f"I am passing this to {names}, and come back with the answer."
    return f"I am asking {names}, and come back when all of them have answered."


def waiting(request: Message, why: str) -> str:
    """What others see of an agent that waits."""
    return f"{quoted(request.text)}: {why}"


def waits_for(names: list[str]) -> str:
    """For whom an agent waits."""
    return f"waiting for {joined(names)}"


def leave_to(seat: Seat, request: Message) -> str:
    """What a specialist needs leave for, in the words of its org file."""
    stems = reading.stems_of(request.text)
    return joined([word for word in seat.asks_before if reading.names(stems, word)])


WAITS_FOR_LEAVE = "waiting for an approval"
"""What is said of work that may not begin."""
NO_MORE = "The work was taken back."
"""Why leave is not wanted any more."""
NOT_MINE = "This is not mine to decide."
"""What a lead says of an approval."""


def asks_leave(what: str) -> str:
    """What a person is told whose request needs leave."""
    return f"I need an approval first ({what}), and come back when it is decided."


def wants(request: Message) -> str:
    """Why a specialist asks for leave."""
    return f"I was asked: {quoted(request.text)}"


def cannot_ask(what: str, why: str) -> str:
    """An answer where no leave could be asked for."""
    return f"**Not done.** This needs an approval ({what}), and I could not ask for it: {why}"


def more_about(request: Message) -> str:
    """What a specialist says to a question about what it wants leave for."""
    return f"All that I know is what I was asked: {quoted(request.text)}"


def decided(approval: Approval, what: str) -> str:
    """What stands above an answer that needed leave."""
    if approval.status == "approved":
        return f"**Approved** by {approval.by or 'somebody'} ({what})."
    words = {"denied": f"was denied by {approval.by or 'somebody'}", "expired": "was decided by nobody in time"}
    why = f": {approval.note}" if approval.note else ""
    return f"**Not done.** The approval that this needs ({what}) {words.get(approval.status, 'was taken back')}{why}."


def steps(seat: Seat) -> list[str]:
    """What a specialist does about a request, one after the other."""
    return ["reading it", *(craft.title for craft in seat.craft)]


def answer(seat: Seat, request: Message, results: Sequence[tuple[str, Message]]) -> str:
    """What an agent has to say about a request, given what has come back from those that it asked, by their names. Who
    has not answered is named as that, with the reason: nothing is made up for them."""
    parts = [] if request.sender else _introduction(request, results)
    if request.text.strip():
        parts += [practise(craft, request.text) for craft in seat.craft]
    room = _MOST // max(1, len(results))
    parts += [f"### {name}\n\n{_part(name, result, room)}" for name, result in results]
    return "\n\n".join(parts)[:_MOST] or _nothing(seat, request)


def _introduction(request: Message, results: Sequence[tuple[str, Message]]) -> list[str]:
    if not results:
        return []
    heard = joined([name for name, result in results if not result.failed])
    silent = joined([name for name, result in results if result.failed])
    words = [f"from {heard}" if heard else "from nobody", *([f"without {silent}"] if silent else [])]
    return [f"On {quoted(request.text)}, {', '.join(words)}:"]


def _part(name: str, result: Message, room: int) -> str:
    text = _deeper(result.text[:room])
    return f"**There is no answer from {name}.** {text}" if result.failed else text


def _nothing(seat: Seat, request: Message) -> str:
    if not request.text.strip():
        return "There is no text in this message, and text is all that I can read."
    return f"Nobody whom I may ask knows about {quoted(request.text)}. I am {seat.name}: {seat.role}"


def _deeper(text: str) -> str:
    """The same with each heading one level down, so that it fits below another."""
    return _HEADING.sub(r"#\1 ", text)
