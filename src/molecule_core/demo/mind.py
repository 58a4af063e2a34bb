"""What an agent of the company decides: `react` takes what it knows and what it hears, and says what to do. Pure.

Above: agent. Below: saying, crafts.

Nothing is remembered outside the inbox: a request is acknowledged only when it is answered, and the results that it
waits for only after it. Whatever is not acknowledged is handed out again to the next agent in this seat; all that is
sent has a key made from the request's id, so that repeating it has no effect.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.demo import saying
from molecule_core.demo.crafts import quoted
from molecule_core.demo.model import (
    Ack,
    Action,
    Answer,
    Approval,
    Ask,
    Delegate,
    Message,
    PassOn,
    Peer,
    Report,
    Say,
    Seat,
    TakeBack,
    Use,
    Work,
)
from molecule_core.demo.reading import telling_stems

_WHOLE = 100


class Case(Struct, frozen=True):
    """A request that waits for those who were given it; `results` by the id of the peer."""

    request: Message
    asked: tuple[Peer, ...]
    results: dict[str, Message] = {}

    @property
    def missing(self) -> list[Peer]:
        """Who has not come back with a result."""
        return [peer for peer in self.asked if peer.id not in self.results]


class Leave(Struct, frozen=True):
    """A request that must not be worked on before an approval; None until the server has said which it is."""

    request: Message
    approval: Approval | None = None


class State(Struct, frozen=True):
    """What an agent has in mind: open cases by the id of their request; for each delegation under way the keys of all
    that wait for it, since the same work that is wanted twice at a time is one delegation; results that nobody waits
    for yet; and what needs leave, by the id of its request."""

    cases: dict[str, Case] = {}
    waits: dict[str, tuple[str, ...]] = {}
    held: dict[str, Message] = {}
    leaves: dict[str, Leave] = {}


class Reaction(Struct, frozen=True):
    """What an agent has in mind now, and what it does, in this order."""

    state: State
    actions: tuple[Action, ...]


def react(seat: Seat, state: State, message: Message, peers: Sequence[Peer] = ()) -> Reaction:
    """What an agent does about a message. `peers` are needed for a request."""
    if message.approval is not None:
        return _take_approval(seat, state, message, message.approval)
    if message.is_result:
        return _take_result(seat, state, message)
    if message.wants_answer:
        return _take_request(seat, state, message, peers)
    return _take_note(state, message)


def begun(seat: Seat, state: State, given: Delegate, delegation_id: str) -> Reaction:
    """What an agent does when it knows which delegation it has begun, or had begun in its life before."""
    keys = tuple(dict.fromkeys((*state.waits.get(delegation_id, ()), given.key)))
    known = replace(state, waits={**state.waits, delegation_id: keys})
    early = next((each for each in state.held.values() if each.delegation_id == delegation_id), None)
    return Reaction(known, ()) if early is None else _take_result(seat, known, early)


def refused(seat: Seat, state: State, given: Delegate, why: str) -> Reaction:
    """What an agent does when the server does not let it delegate."""
    result = Message(id="", attempt=0, text=why, sender=given.to, is_result=True, failed=True)
    return _settle(seat, state, result, {given.key})


def tasks(state: State) -> list[str]:
    """What an agent is busy with, the newest last, as others may see it."""
    waiting = [saying.waiting(case.request, saying.waits_for(_names(case.missing))) for case in state.cases.values()]
    return waiting + [saying.waiting(leave.request, saying.WAITS_FOR_LEAVE) for leave in state.leaves.values()]


def key_of(request: Message, peer: Peer) -> str:
    """The key under which a request is delegated to a peer."""
    return f"ask-{request.id}-{peer.id}"


# -- requests ----------------------------------------------------------------------------------------------------------


def _take_request(seat: Seat, state: State, request: Message, peers: Sequence[Peer]) -> Reaction:
    if saying.leave_to(seat, request):
        return _ask_leave(seat, state, request)
    known = state.cases.get(request.id)
    if known is not None:
        return Reaction(replace(state, cases={**state.cases, request.id: replace(known, request=request)}), ())
    asked = _whom_to_ask(seat, request, peers)
    told = Say(saying.begun(asked), f"begun-{request.id}", request.id, progress=True)
    telling = [told] if asked and request.sender is None else []
    giving = [Delegate(peer.id, request.text, key_of(request, peer), request.id) for peer in asked]
    case = Case(request, asked)
    return _go_on(seat, state, case, (*telling, *giving, *_reporting(seat, case)))


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
    if case.missing:
        return Reaction(replace(state, cases={**state.cases, case.request.id: case}), actions)
    left = _without(state, case.request.id)
    return Reaction(left, (*actions, *_answering(seat, case, left)))


def _without(state: State, request_id: str) -> State:
    """Nothing is waited for any more on behalf of a request."""
    cases = {key: case for key, case in state.cases.items() if key != request_id}
    wanted = {key_of(case.request, peer) for case in cases.values() for peer in case.asked}
    left = {each: tuple(key for key in keys if key in wanted) for each, keys in state.waits.items()}
    return replace(state, cases=cases, waits={each: keys for each, keys in left.items() if keys})


def _answering(seat: Seat, case: Case, left: State, allowed: str = "") -> list[Action]:
    """The answer; `allowed`: what stands above it.

    The request is acknowledged before the results: a request that comes again without them would wait for ever, while a
    result without its request only has to be put away. So one that another request waits for stays, too."""
    results = [(peer.name, case.results[peer.id]) for peer in case.asked]
    text = allowed + saying.answer(seat, case.request, results)
    return [
        *_working(seat, case.request),
        _reply(case.request, text),
        Ack(case.request),
        *(Ack(each) for each in case.results.values() if each.id and each.delegation_id not in left.waits),
    ]


def _working(seat: Seat, request: Message) -> list[Action]:
    """The time that an agent takes. One that reports tells of each step as it begins it."""
    task = quoted(request.text)
    if not (seat.progress and request.is_delegated) or seat.behaviour != "specialist":
        return [Work(seat.seconds, task)]
    steps = saying.steps(seat)
    told: list[Action] = []
    for number, step in enumerate(steps):
        told.append(Report(request.delegation_id, step, _WHOLE * number // len(steps)))
        told.append(Work(seat.seconds / len(steps), f"{task}: {step}"))
    return told


def _reply(request: Message, text: str) -> Action:
    return Say(text, f"answer-{request.id}", request.id) if request.sender is None else Answer(request, text)


# -- leave -------------------------------------------------------------------------------------------------------------


def _ask_leave(seat: Seat, state: State, request: Message) -> Reaction:
    """Also a request that comes again asks again, and is told how it stands: the decision may have come before it."""
    what = saying.leave_to(seat, request)
    known = state.leaves.get(request.id, Leave(request))
    leaves = {**state.leaves, request.id: replace(known, request=request)}
    telling: list[Action] = []
    if request.sender is None:
        telling.append(Say(saying.asks_leave(what), f"leave-{request.id}", request.id, progress=True))
    elif request.is_delegated and seat.progress:
        telling.append(Report(request.delegation_id, saying.WAITS_FOR_LEAVE, 0))
    return Reaction(replace(state, leaves=leaves), (*telling, _asking(seat, request)))


def _asking(seat: Seat, request: Message) -> Ask:
    what = saying.leave_to(seat, request)
    return Ask(what, saying.wants(request), request.text, f"approval-{request.id}", request.id)


def stands(seat: Seat, state: State, asked: Ask, approval: Approval) -> Reaction:
    """What an agent does when it knows how its approval stands."""
    leave = state.leaves.get(asked.about)
    if leave is None:
        return Reaction(state, ())
    if approval.waits:
        known = {**state.leaves, asked.about: replace(leave, approval=approval)}
        return Reaction(replace(state, leaves=known), ())
    left, request = _without_leave(state, asked.about), leave.request
    told = saying.decided(approval, asked.action)
    if approval.status != "approved":
        return Reaction(left, (_reply(request, told), Ack(request)))
    case = Case(request, ())
    return Reaction(left, (Use(approval), *_answering(seat, case, left, f"{told}\n\n")))


def forbidden(state: State, asked: Ask, why: str) -> Reaction:
    """What an agent does when the server does not let it ask."""
    leave = state.leaves.get(asked.about)
    if leave is None:
        return Reaction(state, ())
    left = _without_leave(state, asked.about)
    return Reaction(left, (_reply(leave.request, saying.cannot_ask(asked.action, why)), Ack(leave.request)))


def _take_approval(seat: Seat, state: State, message: Message, approval: Approval) -> Reaction:
    """Nobody of the company decides: a lead passes on what is asked of it, up to the person. A decision that is heard
    is looked up, so that what the server says counts, and not what a message says."""
    if message.to_decide:
        return Reaction(state, (PassOn(approval, saying.NOT_MINE),))
    own = next((each for each in state.leaves.values() if each.approval and each.approval.id == approval.id), None)
    if own is None:
        return Reaction(state, (Ack(message),))
    if message.wants_answer:
        return Reaction(state, (Answer(message, saying.more_about(own.request)),))
    return Reaction(state, (_asking(seat, own.request), Ack(message)))


def _without_leave(state: State, request_id: str) -> State:
    return replace(state, leaves={key: leave for key, leave in state.leaves.items() if key != request_id})


# -- results -----------------------------------------------------------------------------------------------------------


def _take_result(seat: Seat, state: State, result: Message) -> Reaction:
    keys = state.waits.get(result.delegation_id)
    if keys is None:
        return _keep(state, result)
    held = {each: kept for each, kept in state.held.items() if each != result.id}
    return _settle(seat, replace(state, held=held), result, set(keys))


def _settle(seat: Seat, state: State, result: Message, keys: set[str]) -> Reaction:
    """A result goes to all who wait for it. One that comes again counts as it was handed out last."""
    done: list[Action] = []
    for case in list(state.cases.values()):
        for peer in case.asked:
            if key_of(case.request, peer) in keys:
                further = replace(case, results={**case.results, peer.id: result})
                telling = _reporting(seat, further) if peer.id not in case.results else ()
                reaction = _go_on(seat, state, further, telling)
                state = reaction.state
                done += reaction.actions
    return Reaction(state, tuple(done))


def _reporting(seat: Seat, case: Case) -> tuple[Action, ...]:
    """How far an agent is that waits for others, if it reports."""
    if not (seat.progress and case.request.is_delegated and case.missing):
        return ()
    share = _WHOLE * len(case.results) // len(case.asked)
    return (Report(case.request.delegation_id, saying.waits_for(_names(case.missing)), share),)


def _keep(state: State, result: Message) -> Reaction:
    """A result that nobody waits for. After a restart it may have come before the request that it is for: it is kept
    unhandled. When it is handed out a second time, every lease of the life before has ended, and with it every request
    that is still open has come: then nobody waits for this one."""
    held = dict(state.held)
    if held.pop(result.id, None) is not None:
        return Reaction(replace(state, held=held), (Ack(result),))
    return Reaction(replace(state, held={**held, result.id: result}), ())


def _take_note(state: State, note: Message) -> Reaction:
    """What wants no answer is put away; if it says that work is over, that is waited for no more."""
    over = {key for key, case in state.cases.items() if case.request.is_delegated and key == note.delegation_id}
    for request_id in over:
        state = _without(state, request_id)
    back: list[Action] = []
    for key, leave in list(state.leaves.items()):
        if leave.request.is_delegated and leave.request.delegation_id == note.delegation_id:
            state = _without_leave(state, key)
            back += [TakeBack(leave.approval, saying.NO_MORE)] if leave.approval else []
    return Reaction(state, (*back, Ack(note)))


def _names(peers: list[Peer]) -> list[str]:
    return [peer.name for peer in peers]
