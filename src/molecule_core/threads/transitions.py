"""Transitions of threads, independent of who causes them: turns end, threads close, mail is sent."""

from collections.abc import Generator, Sequence
from typing import Any, Literal

import msgspec

from molecule_core.budgets.leases import BudgetLeases
from molecule_core.common.ids import IdGenerator
from molecule_core.common.metrics import ThreadMeter
from molecule_core.store.database import ReadQuery, RequestBatch, StepRequest
from molecule_core.threads import rules
from molecule_core.threads.model import FINAL_MAIL_KEY, SERVER_AUTHOR, LogEntryRow, Mail, Thread, ThreadTurn
from molecule_core.threads.unit_of_work import ThreadUnitOfWork, load_open_calls, load_thread, load_turn
from molecule_core.usage.model import UsageDraft
from molecule_core.usage.writer import UsageWriter
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.thread_log import (
    Author,
    DescendantsAction,
    MailType,
    TextInput,
    TurnOutcome,
    TurnTrigger,
)

_TURN_ENDED = "the turn has ended"
"""Also the reason for a wait that began outside of turns: a turn of its thread ended since, and none is running."""
_OUTCOME_UNKNOWN = "The outcome is unknown: the turn ended before the tool had answered."


class ThreadTransitions:
    """Transitions that end turns, close threads and deliver mail."""

    def __init__(self, ids: IdGenerator, meter: ThreadMeter, budgets: BudgetLeases, usage: UsageWriter) -> None:
        """Initialize with `meter`, which counts the effects of the units of work that use these transitions."""
        self._ids = ids
        self._budgets = budgets
        self._usage = usage
        self.meter = meter

    def accept_turn(
        self,
        uow: ThreadUnitOfWork,
        thread_id: str,
        texts: Sequence[TextInput],
        *,
        trigger: TurnTrigger,
        author: Author,
        key: str | None = None,
        requester_id: str | None = None,
    ) -> ThreadTurn:
        """Accept a turn."""
        turn = ThreadTurn(
            turn_id=self._ids.new(),
            thread_id=thread_id,
            status="accepted",
            cause=trigger,
            input=msgspec.json.encode(list(texts)).decode(),
            author=msgspec.json.encode(author).decode(),
            key=key,
            requester_id=requester_id,
            accepted_at=uow.now,
            ended_at=None,
        )
        uow.accept_turn(thread_id, turn)
        return turn

    def send_mail(
        self,
        uow: ThreadUnitOfWork,
        receiver: Thread,
        sender: Thread | None,
        *,
        kind: MailType,
        text: str,
        key: str,
        wakes: bool,
    ) -> Generator[StepRequest, Any, Mail]:
        """Accept mail. Its receiver must be attached already."""
        mail = Mail(
            mail_id=self._ids.new(),
            receiver_id=receiver.thread_id,
            author_id=None if sender is None else sender.thread_id,
            author="" if sender is None else sender.path,
            seq=0,
            type=kind,
            wakes=int(wakes),
            text=text,
            key=key,
            state="accepted",
            turn_id=None,
            sent_at=uow.now,
        )
        return (yield from uow.post_mail(mail))

    def wake_if_idle(
        self, uow: ThreadUnitOfWork, thread_id: str, trigger: TurnTrigger = "mail", requester_id: str | None = None
    ) -> ThreadTurn | None:
        """Accept a turn of an idle thread, in which it reads its mail. A queued turn will read the mail anyway."""
        thread = uow.get(thread_id)
        if thread.open or thread.closed:
            return None
        return self.accept_turn(uow, thread_id, [], trigger=trigger, author=SERVER_AUTHOR, requester_id=requester_id)

    # -- ends of turns -------------------------------------------------------------------------------------------------

    def end_turn(
        self,
        uow: ThreadUnitOfWork,
        thread_id: str,
        turn_id: str,
        status: TurnOutcome,
        *,
        error: str | None = None,
        final: str | None = None,
        seen: int | None = None,
        allow_next_turn: bool = True,
    ) -> Generator[StepRequest, Any, None]:
        """End a turn: close its open calls, notify its requesters once, and accept a turn for unread input.

        `seen`: the last ordinal that the model has seen. Without `allow_next_turn` no further turn is accepted; once no
        turn is left, the authors of unread mail that asked for work are notified too."""
        if uow.get(thread_id).active_flags:  # its waits end, which changes the flags of its ancestors
            yield from self._attach_tree(uow, thread_id)
        turn = yield from load_turn(turn_id)
        requester_ids = [] if turn is None or turn.requester_id is None else [turn.requester_id]
        if uow.get(thread_id).turn_id == turn_id:
            if turn is not None and uow.get(thread_id).turn_tokens:
                yield from self._record_usage(uow, uow.get(thread_id), turn)
            yield from self._close_open_calls(uow, thread_id, turn_id)
            thread = uow.get(thread_id)
            for name, params in self._budgets.end_thread_leases(thread.org_id, thread.workspace_id, thread_id):
                uow.write(name, params)
            read = yield ReadQuery("thread_mail_in_turn", {"receiver_id": thread_id, "turn_id": turn_id})
            for mail in [Mail.from_row(row) for row in read]:
                uow.set_mail_state(mail, "answered" if status == "completed" else "failed", turn_id)
                requester_ids += (
                    [mail.author_id] if mail.wakes and mail.author_id and mail.mail_type != "FINAL_ANSWER" else []
                )
        if uow.get(thread_id).turn_id in (None, turn_id):  # no turn is left that could ask for the wait
            yield from self._interrupt_stray_waits(uow, thread_id, _TURN_ENDED)
        uow.end_turn(thread_id, log.TurnEndedEntry(turn_id, status, error, final))
        if not allow_next_turn and not uow.get(thread_id).open:  # control: stopped-reader-told
            requester_ids += yield from self._fail_unread_mail(uow, thread_id)
        for each in dict.fromkeys(requester_ids):
            if allow_next_turn or each != thread_id:  # notifying the thread itself would wake it
                yield from self._notify_requester(uow, thread_id, turn_id, each, rules.final_text(status, final, error))
        if allow_next_turn:
            yield from self._accept_next_turn(uow, thread_id, status, seen)

    def _record_usage(
        self, uow: ThreadUnitOfWork, thread: Thread, turn: ThreadTurn
    ) -> Generator[StepRequest, Any, None]:
        """Record what a turn used, under its id. Turns of sub-agents count for the message that began their tree's."""
        key = {"thread_id": thread.thread_id, "turn_id": turn.turn_id}
        latest = {"thread_id": thread.root_id, "accepted_at": turn.accepted_at}
        found, rows = yield RequestBatch(
            [ReadQuery("usage_entries_of_turn", key), ReadQuery("latest_keyed_turn", latest)]
        )
        used = [each for each in (log.decode_entry(row[0]) for row in found) if isinstance(each, log.UsageEntry)]
        message_key = turn.key or (rows[0][0] if rows else None)
        draft = UsageDraft(
            key=turn.turn_id,
            tokens=rules.sum_usage(used),
            activity_id=None if message_key is None else rules.message_of_key(message_key),
            thread_id=thread.thread_id,
            model=next((each.model for each in reversed(used) if each.model), thread.model),
            at=uow.now,
        )
        uow.add_changes((yield from self._usage.record_steps(thread.org_id, thread.workspace_id, draft)))

    def _fail_unread_mail(self, uow: ThreadUnitOfWork, thread_id: str) -> Generator[StepRequest, Any, list[str]]:
        """Fail unread mail that asked for work; return its authors, except those that this command notified already."""
        requester_ids = list[str]()
        waiting = yield ReadQuery("thread_mail_waiting", {"receiver_id": thread_id})
        for mail in map(Mail.from_row, waiting):
            if mail.wakes and mail.mail_type != "FINAL_ANSWER":
                author = None if mail.author_id is None else (yield from self._attach_if_found(uow, mail.author_id))
                uow.set_mail_state(mail, "failed", None)
                requester_ids += [] if author is None else [author.thread_id]
        return [each for each in requester_ids if all(mail.author_id != thread_id for mail in uow.posted_mail(each))]

    def _close_open_calls(
        self, uow: ThreadUnitOfWork, thread_id: str, turn_id: str
    ) -> Generator[StepRequest, Any, None]:
        """Close tool calls without an output, and pending waits, of a turn."""
        open_call_ids = yield from load_open_calls(thread_id, turn_id)
        for call_id in open_call_ids.elements():
            uow.append_entry(thread_id, log.ToolOutputEntry(call_id, _OUTCOME_UNKNOWN, is_error=True), turn_id=turn_id)
        rows = yield ReadQuery("thread_collabs_of_turn", {"thread_id": thread_id, "turn_id": turn_id})
        pending: dict[str, log.CollabCallEntry] = {}
        for row in rows:
            call = log.decode_entry(row[0])
            if isinstance(call, log.CollabCallEntry):
                pending[call.call_id] = call
        for call in pending.values():
            if call.status == "inProgress":
                self._interrupt_wait(uow, thread_id, call, turn_id, _TURN_ENDED)

    def _interrupt_wait(
        self, uow: ThreadUnitOfWork, thread_id: str, wait: log.CollabCallEntry, turn_id: str | None, reason: str
    ) -> None:
        """Interrupt a wait."""
        interrupted = msgspec.structs.replace(wait, status="interrupted", reason=reason)
        uow.append_entry(thread_id, interrupted, turn_id=turn_id, key=f"end:{wait.call_id}")

    def _interrupt_stray_waits(
        self, uow: ThreadUnitOfWork, thread_id: str, reason: str
    ) -> Generator[StepRequest, Any, None]:
        """Interrupt waits that began outside of turns: no end of a turn closes them."""
        for call_id in uow.get(thread_id).wait_call_ids:
            rows = yield ReadQuery("thread_entry_by_key", {"thread_id": thread_id, "key": f"begin:{call_id}"})
            entry_row = LogEntryRow(*rows[0])
            call = log.decode_entry(entry_row.body)
            if entry_row.turn_id is None and isinstance(call, log.CollabCallEntry):
                self._interrupt_wait(uow, thread_id, call, None, reason)

    def _notify_requester(
        self, uow: ThreadUnitOfWork, thread_id: str, turn_id: str, requester_id: str, text: str
    ) -> Generator[StepRequest, Any, None]:
        """Send the end of a turn to its requester, and wake it by the thread's policy."""
        requester = yield from self._attach_if_found(uow, requester_id)
        if requester is None:
            return
        thread = uow.get(thread_id)
        turn_rows = yield ReadQuery("open_turns_requested", {"requester_id": requester.thread_id})
        others = sum(not uow.has_ended_turn(row[0]) for row in turn_rows)
        digests = len((yield ReadQuery("thread_digests_waiting", {"receiver_id": requester.thread_id})))
        # One command may end several agents: count the ends before this one as the store will.
        final_mail = [mail for mail in uow.posted_mail(requester.thread_id) if mail.mail_type == "FINAL_ANSWER"]
        digests += sum(
            mail.author_id is not None and uow.get(mail.author_id).wake_policy == "digest" for mail in final_mail
        )
        is_waking = rules.should_wake_now(thread.wake_policy, others, digests) and not uow.is_stopped(
            requester.thread_id
        )
        yield from self.send_mail(
            uow, requester, thread, kind="FINAL_ANSWER", text=text, key=FINAL_MAIL_KEY + turn_id, wakes=is_waking
        )
        if is_waking:
            self.wake_if_idle(uow, requester.thread_id)

    def _accept_next_turn(
        self, uow: ThreadUnitOfWork, thread_id: str, status: TurnOutcome, seen: int | None
    ) -> Generator[StepRequest, Any, None]:
        thread = uow.get(thread_id)
        has_unseen_input = status == "completed" and seen is not None and thread.heard > seen
        if has_unseen_input and not (yield from self._has_answering_turn(thread)):
            self.accept_turn(uow, thread_id, [], trigger="user", author=SERVER_AUTHOR)
            return
        waiting = yield ReadQuery("thread_mail_waiting", {"receiver_id": thread_id})
        if any(mail.wakes for mail in (*map(Mail.from_row, waiting), *uow.posted_mail(thread_id))):
            self.wake_if_idle(uow, thread_id)

    def _has_answering_turn(self, thread: Thread) -> Generator[StepRequest, Any, bool]:
        """Return whether a queued turn will answer the input; a compaction does not.

        A turn accepted by this command, which the store does not know yet, will."""
        for each in thread.queued_turn_ids:
            turn = yield from load_turn(each)
            if turn is None or rules.answers_input(turn.trigger):
                return True
        return False

    def _attach_tree(self, uow: ThreadUnitOfWork, thread_id: str) -> Generator[StepRequest, Any, list[Thread]]:
        rows = yield ReadQuery("threads_of_tree", {"root_id": uow.get(thread_id).root_id})
        tree = [Thread.from_row(row) for row in rows]
        uow.attach_tree(tree)
        return tree

    def _attach_if_found(self, uow: ThreadUnitOfWork, thread_id: str) -> Generator[StepRequest, Any, Thread | None]:
        if not uow.is_attached(thread_id):
            row = yield from load_thread(thread_id)
            if row is None:
                return None
            uow.attach(row)
        return uow.get(thread_id)

    # -- interrupting and closing --------------------------------------------------------------------------------------

    def interrupt_turns(
        self, uow: ThreadUnitOfWork, thread_id: str, *, include_queued: bool = False
    ) -> Generator[StepRequest, Any, bool]:
        """Interrupt the running turn, or the queued ones if none is running or with `include_queued`.

        Returns whether there was a turn."""
        thread = uow.get(thread_id)
        running, queued = thread.turn_id, thread.queued_turn_ids
        if running is not None:
            yield from self.end_turn(uow, thread_id, running, "interrupted", allow_next_turn=not include_queued)
        if running is None or include_queued:
            for each in queued:
                yield from self.end_turn(uow, thread_id, each, "interrupted", allow_next_turn=False)
        return running is not None or bool(queued)

    def close_thread(
        self, uow: ThreadUnitOfWork, thread_id: str, by: Author, descendants: DescendantsAction
    ) -> Generator[StepRequest, Any, None]:
        """Close a thread."""
        if uow.get(thread_id).closed:
            return
        yield from self._interrupt_stray_waits(uow, thread_id, "the thread was closed")
        yield from self.interrupt_turns(uow, thread_id, include_queued=True)
        uow.append_entry(thread_id, log.ThreadClosedEntry(descendants, by))

    def stop_tree(
        self,
        uow: ThreadUnitOfWork,
        thread_id: str,
        action: Literal["interrupt", "close"],
        by: Author,
        descendants: DescendantsAction,
    ) -> Generator[StepRequest, Any, None]:
        """Interrupt or close a thread, perhaps with its descendants.

        Agents at work that are stopped together are not woken by each other's ends."""
        path = uow.get(thread_id).path
        tree = yield from self._attach_tree(uow, thread_id)
        below = [each for each in tree if rules.is_below(each.path, path)] if descendants != "detach" else []
        if below:
            uow.mark_stopped(*(each.thread_id for each in (uow.get(thread_id), *map(uow.attach, below)) if each.open))
        yield from self._stop_thread(uow, thread_id, action, by, descendants)
        for each in below:
            yield from self._stop_thread(uow, each.thread_id, descendants, by, descendants)

    def _stop_thread(
        self, uow: ThreadUnitOfWork, thread_id: str, action: str, by: Author, descendants: DescendantsAction
    ) -> Generator[StepRequest, Any, None]:
        if action == "close":
            yield from self.close_thread(uow, thread_id, by, descendants)
        else:
            yield from self.interrupt_turns(uow, thread_id)
