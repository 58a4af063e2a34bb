"""What an agent of the company decides: `react` takes what it knows and what it hears, and says what to do. Pure.

Above: agent. Below: saying, crafts.

Nothing is remembered outside the inbox: a request is acknowledged only when it is answered, and the answers that it
waits for only after it. Whatever is not acknowledged is handed out again when its lease ends, to this agent or to the
next one in its seat; all that is sent has an id made from the request's, so that repeating it has no effect.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.demo import saying
from molecule_core.demo.crafts import quoted
from molecule_core.demo.model import Ack, Action, Message, Peer, Say, Seat, Send, Work
from molecule_core.demo.reading import telling_stems


class Case(Struct, frozen=True):
    """A request that waits for the answers of those who were asked; `answers` by the id of the peer."""

    request: Message
    asked: tuple[Peer, ...]
    answers: dict[str, Message]

    @property
    def missing(self) -> list[Peer]:
        """Who has not answered."""
        return [peer for peer in self.asked if peer.id not in self.answers]


class State(Struct, frozen=True):
    """What an agent has in mind: open cases by the id of their request, and answers whose case it does not know."""

    cases: dict[str, Case] = {}
    held: dict[str, Message] = {}


class Reaction(Struct, frozen=True):
    """What an agent has in mind now, and what it does, in this order."""

    state: State
    actions: tuple[Action, ...]


def react(seat: Seat, state: State, message: Message, peers: Sequence[Peer] = ()) -> Reaction:
    """What an agent does about a message. `peers` are needed for a request."""
    if message.is_answer:
        return _take_answer(seat, state, message)
    if message.is_request:
        return _take_request(seat, state, message, peers)
    return Reaction(state, (Ack(message),))


def tasks(state: State) -> list[str]:
    """What an agent is busy with, the newest last, as others may see it."""
    return [saying.waiting(case.request, [peer.name for peer in case.missing]) for case in state.cases.values()]


def question_id(request: Message, peer: Peer) -> str:
    """The messageId under which a peer is asked about a request."""
    return f"ask-{request.id}-{peer.id}"


# -- requests ----------------------------------------------------------------------------------------------------------


def _take_request(seat: Seat, state: State, request: Message, peers: Sequence[Peer]) -> Reaction:
    known = state.cases.get(request.id)
    if known is not None:
        heard_of = {*known.answers, *(peer.id for peer in peers)}
        asked = tuple(peer for peer in known.asked if peer.id in heard_of)  # who was removed will never answer
        return _go_on(seat, state, replace(known, request=request, asked=asked), ())
    asked = _whom_to_ask(seat, request, peers)
    early = {peer.id: answer for peer in asked if (answer := _held_answer(state, request, peer)) is not None}
    asking = [Send(peer.id, request.text, question_id(request, peer), "request") for peer in asked]
    telling = [Say(saying.begun(asked), f"begun-{request.id}")] if asked and request.sender is None else []
    taken = {answer.id for answer in early.values()}
    state = replace(state, held={key: answer for key, answer in state.held.items() if key not in taken})
    return _go_on(seat, state, Case(request, asked, early), (*telling, *asking))


def _held_answer(state: State, request: Message, peer: Peer) -> Message | None:
    asked = question_id(request, peer)
    fitting = (each for each in state.held.values() if each.in_reply_to == asked and each.sender == peer.id)
    return next(fitting, None)


def _whom_to_ask(seat: Seat, request: Message, peers: Sequence[Peer]) -> tuple[Peer, ...]:
    """A lead asks everybody below; a desk the one who fits best; a specialist nobody. Nobody is asked without skills.

    What a peer asks only goes down the tree: so no question can go round in a circle."""
    able = [peer for peer in peers if peer.skilled and peer.id != request.sender]
    if seat.behaviour == "lead":
        return tuple(peer for peer in able if peer.place == "below")
    if seat.behaviour == "desk":
        open_to = ("below", "beside") if request.sender is None else ("below",)
        return _best([peer for peer in able if peer.place in open_to], request.text)
    return ()


def _best(peers: list[Peer], text: str) -> tuple[Peer, ...]:
    """The peer who shares most words with a text, if there is one who shares any."""
    stems = telling_stems(text)
    best = max(peers, key=lambda peer: len(peer.words & stems), default=None)
    return (best,) if best is not None and best.words & stems else ()


def _go_on(seat: Seat, state: State, case: Case, actions: tuple[Action, ...]) -> Reaction:
    """Waits on, or, once nobody is missing, answers."""
    cases = {**state.cases, case.request.id: case}
    if case.missing:
        return Reaction(replace(state, cases=cases), actions)
    del cases[case.request.id]
    return Reaction(replace(state, cases=cases), (*actions, *_answering(seat, case)))


def _answering(seat: Seat, case: Case) -> list[Action]:
    """The request is acknowledged before the answers: a request that comes again without them could not be answered,
    while an answer without its request only has to be put away."""
    answers = [(peer.name, case.answers[peer.id]) for peer in case.asked]
    text = saying.answer(seat, case.request, [(name, each.text) for name, each in answers])
    return [
        Work(seat.seconds, quoted(case.request.text)),
        _reply(case.request, text),
        Ack(case.request),
        *(Ack(each) for each in case.answers.values()),
    ]


def _reply(request: Message, text: str) -> Action:
    key = f"answer-{request.id}"
    if request.sender is None:
        return Say(text, key)
    return Send(request.sender, text, key, "inform", request.name)


# -- answers -----------------------------------------------------------------------------------------------------------


def _take_answer(seat: Seat, state: State, answer: Message) -> Reaction:
    found = _case_of(state, answer)
    if found is None:
        return _keep(state, answer)
    case, peer = found
    if case.answers.get(peer.id, answer).id != answer.id:
        return Reaction(state, (Ack(answer),))  # one answer is enough
    return _go_on(seat, state, replace(case, answers={**case.answers, peer.id: answer}), ())


def _case_of(state: State, answer: Message) -> tuple[Case, Peer] | None:
    for case in state.cases.values():
        for peer in case.asked:
            if peer.id == answer.sender and question_id(case.request, peer) == answer.in_reply_to:
                return case, peer
    return None


def _keep(state: State, answer: Message) -> Reaction:
    """An answer whose request is not known. After a restart it may have come before its request: it is kept unhandled.
    When it is handed out a second time, every lease of the life before has ended, and with it every request that is
    still open has come: then nobody waits for this one."""
    held = dict(state.held)
    if held.pop(answer.id, None) is not None:
        return Reaction(replace(state, held=held), (Ack(answer),))
    return Reaction(replace(state, held={**held, answer.id: answer}), ())
