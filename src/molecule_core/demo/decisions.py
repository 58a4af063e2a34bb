"""Decides what a demo agent does. `decide` maps its memory and a message to actions. Pure.

Nothing is remembered outside the inbox: a request is acknowledged only when it is answered, and the results that it
waits for only after it. Unacknowledged messages are delivered again to the next run of the agent; everything sent has a
key made from the request's id, so that repeating it has no effect."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.demo import replies
from molecule_core.demo.model import (
    AckAction,
    Action,
    AnswerAction,
    AskApprovalAction,
    DelegateAction,
    DemoApproval,
    DemoFile,
    DemoMessage,
    DemoPeer,
    DemoWorkspace,
    EscalateAction,
    ReportAction,
    ReportCostAction,
    SayAction,
    UseApprovalAction,
    WithdrawAction,
    WorkAction,
)
from molecule_core.demo.skills import quote_start
from molecule_core.demo.text_analysis import significant_stems
from molecule_core.wire.schemas.approvals import ApprovalStatus

_WHOLE = 100


class OpenRequest(Struct, frozen=True):
    """A request that waits for the results of delegates; `results` by the id of the peer."""

    request: DemoMessage
    delegates: tuple[DemoPeer, ...]
    results: dict[str, DemoMessage] = {}

    @property
    def missing(self) -> list[DemoPeer]:
        """Return the delegates without a result."""
        return [peer for peer in self.delegates if peer.id not in self.results]


class PendingApproval(Struct, frozen=True):
    """A request that must wait for an approval; `approval` is None until the server has returned it."""

    request: DemoMessage
    approval: DemoApproval | None = None


class AgentMemory(Struct, frozen=True):
    """The memory of an agent.

    `open_requests` by the id of the request. `waiting_keys`: for each delegation the keys that wait for it, since
    identical work requested twice is one delegation. `held_results`: results that no request waits for yet.
    `pending_approvals` by the id of the request."""

    open_requests: dict[str, OpenRequest] = {}
    waiting_keys: dict[str, tuple[str, ...]] = {}
    held_results: dict[str, DemoMessage] = {}
    pending_approvals: dict[str, PendingApproval] = {}


class Reaction(Struct, frozen=True):
    """The new memory of an agent, and the actions to take in this order."""

    state: AgentMemory
    actions: tuple[Action, ...]


def decide(seat: DemoWorkspace, state: AgentMemory, message: DemoMessage, peers: Sequence[DemoPeer] = ()) -> Reaction:
    """Return the reaction to a message. `peers` are needed for a request."""
    if message.approval is not None:
        return _handle_approval(seat, state, message, message.approval)
    if message.is_result:
        return _handle_result(seat, state, message)
    if message.wants_answer:
        return _handle_request(seat, state, message, peers)
    return _handle_note(state, message)


def on_delegated(seat: DemoWorkspace, state: AgentMemory, action: DelegateAction, delegation_id: str) -> Reaction:
    """Return the reaction to a delegation that was begun, now or in a previous run."""
    keys = tuple(dict.fromkeys((*state.waiting_keys.get(delegation_id, ()), action.key)))
    known = replace(state, waiting_keys={**state.waiting_keys, delegation_id: keys})
    early = next((each for each in state.held_results.values() if each.delegation_id == delegation_id), None)
    return Reaction(known, ()) if early is None else _handle_result(seat, known, early)


def on_delegation_rejected(seat: DemoWorkspace, state: AgentMemory, action: DelegateAction, reason: str) -> Reaction:
    """Return the reaction to a rejected delegation."""
    result = DemoMessage(id="", attempt=0, text=reason, sender=action.to, is_result=True, is_failed=True)
    return _apply_result(seat, state, result, {action.key})


def current_tasks(state: AgentMemory) -> list[str]:
    """Return what an agent is waiting for, the newest last, as shown to others."""
    waiting = [
        replies.waiting_text(open_request.request, replies.waiting_for_text(_peer_names(open_request.missing)))
        for open_request in state.open_requests.values()
    ]
    return waiting + [
        replies.waiting_text(pending.request, replies.WAITING_FOR_APPROVAL)
        for pending in state.pending_approvals.values()
    ]


def delegation_key(request: DemoMessage, peer: DemoPeer) -> str:
    """Return the idempotency key under which a request is delegated to a peer."""
    return f"ask-{request.id}-{peer.id}"


# -- requests ----------------------------------------------------------------------------------------------------------


def _handle_request(
    seat: DemoWorkspace, state: AgentMemory, request: DemoMessage, peers: Sequence[DemoPeer]
) -> Reaction:
    if replies.approval_subject(seat, request):
        return _request_approval(seat, state, request)
    known = state.open_requests.get(request.id)
    if known is not None:
        return Reaction(
            replace(state, open_requests={**state.open_requests, request.id: replace(known, request=request)}), ()
        )
    delegates = _choose_delegates(seat, request, peers)
    notice = SayAction(replies.begun_text(delegates), f"begun-{request.id}", request.id, progress=True)
    notices = [notice] if delegates and request.sender is None else []
    delegations = [
        DelegateAction(peer.id, request.text, delegation_key(request, peer), request.id) for peer in delegates
    ]
    open_request = OpenRequest(request, delegates)
    return _continue_request(
        seat, state, open_request, (*notices, *delegations, *_progress_actions(seat, open_request))
    )


def _choose_delegates(seat: DemoWorkspace, request: DemoMessage, peers: Sequence[DemoPeer]) -> tuple[DemoPeer, ...]:
    """Return the peers to delegate to: a lead all below, a desk the best match, a specialist none.

    Peers without skills get nothing. A peer's request only goes down the tree, so no question can circle."""
    able = [peer for peer in peers if peer.has_skills and peer.id != request.sender]
    if seat.behaviour == "lead":
        return tuple(peer for peer in able if peer.place == "below")
    if seat.behaviour == "desk":
        open_to = ("below", "beside") if request.sender is None else ("below",)
        return _best_match([peer for peer in able if peer.place in open_to], request.text)
    return ()


def _best_match(peers: list[DemoPeer], text: str) -> tuple[DemoPeer, ...]:
    """Return the peer that shares most words with a text, if any."""
    stems = significant_stems(text)
    best = max(peers, key=lambda peer: len(peer.stems & stems), default=None)
    return (best,) if best is not None and best.stems & stems else ()


def _continue_request(
    seat: DemoWorkspace, state: AgentMemory, open_request: OpenRequest, actions: tuple[Action, ...]
) -> Reaction:
    """Wait on, or answer once no result is missing."""
    if open_request.missing:
        return Reaction(
            replace(state, open_requests={**state.open_requests, open_request.request.id: open_request}), actions
        )
    left = _without_request(state, open_request.request.id)
    return Reaction(left, (*actions, *_answer_actions(seat, open_request, left)))


def _without_request(state: AgentMemory, request_id: str) -> AgentMemory:
    """Return the memory without a request and what it waits for."""
    open_requests = {key: open_request for key, open_request in state.open_requests.items() if key != request_id}
    wanted = {
        delegation_key(open_request.request, peer)
        for open_request in open_requests.values()
        for peer in open_request.delegates
    }
    waiting = {each: tuple(key for key in keys if key in wanted) for each, keys in state.waiting_keys.items()}
    return replace(
        state, open_requests=open_requests, waiting_keys={each: keys for each, keys in waiting.items() if keys}
    )


def _answer_actions(
    seat: DemoWorkspace, open_request: OpenRequest, left: AgentMemory, allowed: str = ""
) -> list[Action]:
    """Return the actions that answer a request; `allowed`: text to put before the answer.

    The request is acknowledged before the results: a redelivered request without them would wait for ever, while a
    redelivered result without its request is only acknowledged. A result that another request waits for stays."""
    results = [(peer.name, open_request.results[peer.id]) for peer in open_request.delegates]
    text = allowed + replies.answer_text(seat, open_request.request, results)
    costs = [] if seat.cost is None else [ReportCostAction(open_request.request, text, seat.cost)]
    return [
        *_work_actions(seat, open_request.request),
        _reply_action(open_request.request, text, replies.answer_file(seat, open_request.request)),
        *costs,
        AckAction(open_request.request),
        *(
            AckAction(each)
            for each in open_request.results.values()
            if each.id and each.delegation_id not in left.waiting_keys
        ),
    ]


def _work_actions(seat: DemoWorkspace, request: DemoMessage) -> list[Action]:
    """Return the actions that take the agent's time, with a progress report for each step if it reports."""
    task = quote_start(request.text)
    if not (seat.progress and request.is_delegated) or seat.behaviour != "specialist":
        return [WorkAction(seat.seconds, task)]
    steps = replies.work_steps(seat)
    actions: list[Action] = []
    for number, step in enumerate(steps):
        actions.append(ReportAction(request.delegation_id, step, _WHOLE * number // len(steps)))
        actions.append(WorkAction(seat.seconds / len(steps), f"{task}: {step}"))
    return actions


def _reply_action(request: DemoMessage, text: str, file: DemoFile | None = None) -> Action:
    if request.sender is None:
        return SayAction(text, f"answer-{request.id}", request.id)
    return AnswerAction(request, text, file)


# -- approvals ---------------------------------------------------------------------------------------------------------


def _request_approval(seat: DemoWorkspace, state: AgentMemory, request: DemoMessage) -> Reaction:
    """Ask for an approval.

    A redelivered request asks again and gets the status, since the decision may have come before it."""
    what = replies.approval_subject(seat, request)
    known = state.pending_approvals.get(request.id, PendingApproval(request))
    pending_approvals = {**state.pending_approvals, request.id: replace(known, request=request)}
    notices: list[Action] = []
    if request.sender is None:
        notices.append(SayAction(replies.approval_asked_text(what), f"leave-{request.id}", request.id, progress=True))
    elif request.is_delegated and seat.progress:
        notices.append(ReportAction(request.delegation_id, replies.WAITING_FOR_APPROVAL, 0))
    return Reaction(replace(state, pending_approvals=pending_approvals), (*notices, _approval_action(seat, request)))


def _approval_action(seat: DemoWorkspace, request: DemoMessage) -> AskApprovalAction:
    what = replies.approval_subject(seat, request)
    return AskApprovalAction(what, replies.approval_reason(request), request.text, f"approval-{request.id}", request.id)


def on_approval(seat: DemoWorkspace, state: AgentMemory, action: AskApprovalAction, approval: DemoApproval) -> Reaction:
    """Return the reaction to the status of an approval."""
    pending = state.pending_approvals.get(action.about)
    if pending is None:
        return Reaction(state, ())
    if approval.is_pending:
        known = {**state.pending_approvals, action.about: replace(pending, approval=approval)}
        return Reaction(replace(state, pending_approvals=known), ())
    left, request = _without_approval(state, action.about), pending.request
    decision = replies.decision_text(approval, action.action)
    if approval.status != ApprovalStatus.APPROVED:
        return Reaction(left, (_reply_action(request, decision), AckAction(request)))
    open_request = OpenRequest(request, ())
    return Reaction(left, (UseApprovalAction(approval), *_answer_actions(seat, open_request, left, f"{decision}\n\n")))


def on_approval_rejected(state: AgentMemory, action: AskApprovalAction, reason: str) -> Reaction:
    """Return the reaction to an approval that could not be requested."""
    pending = state.pending_approvals.get(action.about)
    if pending is None:
        return Reaction(state, ())
    left = _without_approval(state, action.about)
    return Reaction(
        left,
        (
            _reply_action(pending.request, replies.approval_failed_text(action.action, reason)),
            AckAction(pending.request),
        ),
    )


def _handle_approval(seat: DemoWorkspace, state: AgentMemory, message: DemoMessage, approval: DemoApproval) -> Reaction:
    """Return the reaction to a message about an approval.

    No demo agent decides: a lead escalates, up to the person. A decision is looked up, so that the server's status
    counts and not the text of a message."""
    if message.needs_decision:
        return Reaction(state, (EscalateAction(approval, replies.NOT_DECIDED_HERE),))
    own = next(
        (each for each in state.pending_approvals.values() if each.approval and each.approval.id == approval.id), None
    )
    if own is None:
        return Reaction(state, (AckAction(message),))
    if message.wants_answer:
        return Reaction(state, (AnswerAction(message, replies.request_details(own.request)),))
    return Reaction(state, (_approval_action(seat, own.request), AckAction(message)))


def _without_approval(state: AgentMemory, request_id: str) -> AgentMemory:
    return replace(
        state, pending_approvals={key: pending for key, pending in state.pending_approvals.items() if key != request_id}
    )


# -- results -----------------------------------------------------------------------------------------------------------


def _handle_result(seat: DemoWorkspace, state: AgentMemory, result: DemoMessage) -> Reaction:
    keys = state.waiting_keys.get(result.delegation_id)
    if keys is None:
        return _hold_result(state, result)
    held = {each: kept for each, kept in state.held_results.items() if each != result.id}
    return _apply_result(seat, replace(state, held_results=held), result, set(keys))


def _apply_result(seat: DemoWorkspace, state: AgentMemory, result: DemoMessage, keys: set[str]) -> Reaction:
    """Apply a result to all requests that wait for it. A redelivered result replaces the earlier one."""
    actions: list[Action] = []
    for open_request in list(state.open_requests.values()):
        for peer in open_request.delegates:
            if delegation_key(open_request.request, peer) in keys:
                updated = replace(open_request, results={**open_request.results, peer.id: result})
                notices = _progress_actions(seat, updated) if peer.id not in open_request.results else ()
                reaction = _continue_request(seat, state, updated, notices)
                state = reaction.state
                actions += reaction.actions
    return Reaction(state, tuple(actions))


def _progress_actions(seat: DemoWorkspace, open_request: OpenRequest) -> tuple[Action, ...]:
    """Return a progress report if the agent reports and still waits for others."""
    if not (seat.progress and open_request.request.is_delegated and open_request.missing):
        return ()
    share = _WHOLE * len(open_request.results) // len(open_request.delegates)
    return (
        ReportAction(
            open_request.request.delegation_id, replies.waiting_for_text(_peer_names(open_request.missing)), share
        ),
    )


def _hold_result(state: AgentMemory, result: DemoMessage) -> Reaction:
    """Hold a result that no request waits for.

    After a restart it may arrive before its request, so it stays unacknowledged. When it is delivered a second time,
    all leases of the previous run have ended and every open request has been delivered again: then it belongs to none.
    """
    held = dict(state.held_results)
    if held.pop(result.id, None) is not None:
        return Reaction(replace(state, held_results=held), (AckAction(result),))
    return Reaction(replace(state, held_results={**held, result.id: result}), ())


def _handle_note(state: AgentMemory, note: DemoMessage) -> Reaction:
    """Acknowledge a message that wants no answer; if it ends a delegation, stop waiting on its behalf."""
    ended = {
        key
        for key, open_request in state.open_requests.items()
        if open_request.request.is_delegated and key == note.delegation_id
    }
    for request_id in ended:
        state = _without_request(state, request_id)
    withdrawals: list[Action] = []
    for key, pending in list(state.pending_approvals.items()):
        if pending.request.is_delegated and pending.request.delegation_id == note.delegation_id:
            state = _without_approval(state, key)
            withdrawals += [WithdrawAction(pending.approval, replies.WORK_WITHDRAWN)] if pending.approval else []
    return Reaction(state, (*withdrawals, AckAction(note)))


def _peer_names(peers: list[DemoPeer]) -> list[str]:
    return [peer.name for peer in peers]
