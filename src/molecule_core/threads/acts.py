"""What happens when turns end, threads close and letters come: the same, whoever causes it.

Above: the hands of this slice. Below: steps, rules.
"""

from collections.abc import Generator, Sequence
from typing import Any, Literal

import msgspec

from molecule_core.ground.ids import Ids
from molecule_core.ground.metrics import ThreadMeter
from molecule_core.store.database import Read, Step
from molecule_core.threads import rules
from molecule_core.threads.model import SERVER, Line, Mail, Thread, Turn
from molecule_core.threads.steps import Change, open_calls, thread_row, turn_row
from molecule_core.wire import threadlog as log
from molecule_core.wire.threadlog import Author, Descendants, Ended, MailType, TextInput, Trigger

_TURN_ENDED = "the turn has ended"
"""Of a wait that began outside of any turn too: a turn of its thread has ended since, and none runs."""
_CUT_OFF = "The outcome is not known: the turn ended before the tool had answered."


class Acts:
    """Ends turns, closes threads, delivers letters."""

    def __init__(self, ids: Ids, meter: ThreadMeter) -> None:
        """`meter`: counts what the changes do that these acts are part of."""
        self._ids = ids
        self.meter = meter

    def turn(
        self,
        change: Change,
        thread_id: str,
        texts: Sequence[TextInput],
        *,
        trigger: Trigger,
        author: Author,
        key: str | None = None,
        requester_id: str | None = None,
    ) -> Turn:
        """A turn is accepted."""
        turn = Turn(
            turn_id=self._ids.new(),
            thread_id=thread_id,
            status="accepted",
            cause=trigger,
            input=msgspec.json.encode(list(texts)).decode(),
            author=msgspec.json.encode(author).decode(),
            key=key,
            requester_id=requester_id,
            accepted_at=change.now,
            ended_at=None,
        )
        change.accept(thread_id, turn)
        return turn

    def letter(
        self,
        change: Change,
        receiver: Thread,
        sender: Thread | None,
        *,
        kind: MailType,
        text: str,
        key: str,
        wakes: bool,
    ) -> Generator[Step, Any, Mail]:
        """A letter is accepted. Its receiver takes part in the change already."""
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
            sent_at=change.now,
        )
        return (yield from change.post(mail))

    def wake(
        self, change: Change, thread_id: str, trigger: Trigger = "mail", requester_id: str | None = None
    ) -> Turn | None:
        """An idle thread gets a turn in which it reads its letters; one with a turn to come reads them there."""
        thread = change.of(thread_id)
        if thread.open or thread.closed:
            return None
        return self.turn(change, thread_id, [], trigger=trigger, author=SERVER, requester_id=requester_id)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def end(
        self,
        change: Change,
        thread_id: str,
        turn_id: str,
        status: Ended,
        *,
        error: str | None = None,
        final: str | None = None,
        seen: int | None = None,
        goes_on: bool = True,
    ) -> Generator[Step, Any, None]:
        """A turn ends: what it left open is closed in the log, who asked for it hears of it once, and what came
        meanwhile and was not shown gets a turn of its own. `seen`: the last ordinal that the model was shown. Not
        `goes_on`: it gets none; once no turn is left, who asked by a letter that was not shown hears of that too."""
        if change.of(thread_id).flagged:  # nothing is waited for any more, which those above it are told
            yield from self._knows_tree(change, thread_id)
        turn = yield from turn_row(turn_id)
        asked = [] if turn is None or turn.requester_id is None else [turn.requester_id]
        if change.of(thread_id).turn_id == turn_id:
            yield from self._torn(change, thread_id, turn_id)
            read = yield Read("thread_mail_in_turn", {"receiver_id": thread_id, "turn_id": turn_id})
            for mail in [Mail.of(row) for row in read]:
                change.stamp(mail, "answered" if status == "completed" else "failed", turn_id)
                asked += [mail.author_id] if mail.wakes and mail.author_id and mail.sort != "FINAL_ANSWER" else []
        if change.of(thread_id).turn_id in (None, turn_id):  # no turn is left that may ask for what is waited for
            yield from self._unasked(change, thread_id, _TURN_ENDED)
        change.end(thread_id, log.TurnEnded(turn_id, status, error, final))
        if not goes_on and not change.of(thread_id).open:  # control: stopped-reader-told
            asked += yield from self._unread(change, thread_id)
        for each in dict.fromkeys(asked):
            if goes_on or each != thread_id:  # an end that it was told itself would wake it
                yield from self._complete(change, thread_id, turn_id, each, rules.final_text(status, final, error))
        if goes_on:
            yield from self._again(change, thread_id, status, seen)

    def _unread(self, change: Change, thread_id: str) -> Generator[Step, Any, list[str]]:
        """Letters that ask for work which nobody will do have failed; who wrote them, without those whom this change
        has told of an end already."""
        asked = list[str]()
        waiting = yield Read("thread_mail_waiting", {"receiver_id": thread_id})
        for mail in map(Mail.of, waiting):
            if mail.wakes and mail.sort != "FINAL_ANSWER":
                author = None if mail.author_id is None else (yield from self._taken(change, mail.author_id))
                change.stamp(mail, "failed", None)
                asked += [] if author is None else [author.thread_id]
        return [each for each in asked if all(mail.author_id != thread_id for mail in change.posted(each))]

    def _torn(self, change: Change, thread_id: str, turn_id: str) -> Generator[Step, Any, None]:
        """Calls without an output, and waits, are over."""
        still = yield from open_calls(thread_id, turn_id)
        for call_id in still.elements():
            change.add(thread_id, log.ToolOutput(call_id, _CUT_OFF, is_error=True), turn_id=turn_id)
        rows = yield Read("thread_collabs_of_turn", {"thread_id": thread_id, "turn_id": turn_id})
        begun: dict[str, log.Collab] = {}
        for row in rows:
            call = log.entry_of(row[0])
            if isinstance(call, log.Collab):
                begun[call.call_id] = call
        for call in begun.values():
            if call.status == "inProgress":
                self._cut(change, thread_id, call, turn_id, _TURN_ENDED)

    def _cut(self, change: Change, thread_id: str, wait: log.Collab, turn_id: str | None, why: str) -> None:
        """A wait is over, whatever it waits for."""
        over = msgspec.structs.replace(wait, status="interrupted", reason=why)
        change.add(thread_id, over, turn_id=turn_id, key=f"end:{wait.call_id}")

    def _unasked(self, change: Change, thread_id: str, why: str) -> Generator[Step, Any, None]:
        """Waits that began outside of all turns are over: no turn's end is theirs, and nobody may ask for them."""
        for call_id in change.of(thread_id).waiting:
            rows = yield Read("thread_entry_by_key", {"thread_id": thread_id, "key": f"begin:{call_id}"})
            line = Line(*rows[0])
            call = log.entry_of(line.body)
            if line.turn_id is None and isinstance(call, log.Collab):
                self._cut(change, thread_id, call, None, why)

    def _complete(
        self, change: Change, thread_id: str, turn_id: str, asked_by: str, text: str
    ) -> Generator[Step, Any, None]:
        """Who asked for a turn gets its end, by its policy."""
        requester = yield from self._taken(change, asked_by)
        if requester is None:
            return
        thread = change.of(thread_id)
        asked = yield Read("thread_turns_asked", {"requester_id": requester.thread_id})
        others = sum(not change.has_ended(row[0]) for row in asked)
        digests = len((yield Read("thread_digests_waiting", {"receiver_id": requester.thread_id})))
        # One change may end several agents: those that it has ended before count as the store will say.
        ends = [mail for mail in change.posted(requester.thread_id) if mail.sort == "FINAL_ANSWER"]
        digests += sum(mail.author_id is not None and change.of(mail.author_id).edge == "digest" for mail in ends)
        is_waking = rules.wakes_now(thread.edge, others, digests) and not change.is_stopped(requester.thread_id)
        yield from self.letter(
            change, requester, thread, kind="FINAL_ANSWER", text=text, key=f"final:{turn_id}", wakes=is_waking
        )
        if is_waking:
            self.wake(change, requester.thread_id)

    def _again(self, change: Change, thread_id: str, status: Ended, seen: int | None) -> Generator[Step, Any, None]:
        thread = change.of(thread_id)
        is_unheard = status == "completed" and seen is not None and thread.heard > seen
        if is_unheard and not (yield from self._will_answer(thread)):
            self.turn(change, thread_id, [], trigger="user", author=SERVER)
            return
        waiting = yield Read("thread_mail_waiting", {"receiver_id": thread_id})
        if any(mail.wakes for mail in (*map(Mail.of, waiting), *change.posted(thread_id))):
            self.wake(change, thread_id)

    def _will_answer(self, thread: Thread) -> Generator[Step, Any, bool]:
        """Whether a turn to come answers what was said: not if all that wait sum up. (One that this change has brought,
        which the store does not know yet, answers.)"""
        for each in thread.queued:
            turn = yield from turn_row(each)
            if turn is None or rules.answers(turn.trigger):
                return True
        return False

    def _knows_tree(self, change: Change, thread_id: str) -> Generator[Step, Any, list[Thread]]:
        rows = yield Read("threads_of_tree", {"root_id": change.of(thread_id).root_id})
        tree = [Thread.of(row) for row in rows]
        change.knows_tree(tree)
        return tree

    def _taken(self, change: Change, thread_id: str) -> Generator[Step, Any, Thread | None]:
        if not change.has(thread_id):
            row = yield from thread_row(thread_id)
            if row is None:
                return None
            change.take(row)
        return change.of(thread_id)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def interrupt(self, change: Change, thread_id: str, *, all_of_it: bool = False) -> Generator[Step, Any, bool]:
        """The turn that runs ends, at once; if none runs, or `all_of_it`, those that wait too. Whether there was
        anything to end."""
        thread = change.of(thread_id)
        running, queued = thread.turn_id, thread.queued
        if running is not None:
            yield from self.end(change, thread_id, running, "interrupted", goes_on=not all_of_it)
        if running is None or all_of_it:
            for each in queued:
                yield from self.end(change, thread_id, each, "interrupted", goes_on=False)
        return running is not None or bool(queued)

    def close(self, change: Change, thread_id: str, by: Author, descendants: Descendants) -> Generator[Step, Any, None]:
        """The thread takes nothing more."""
        if change.of(thread_id).closed:
            return
        yield from self._unasked(change, thread_id, "the thread was closed")
        yield from self.interrupt(change, thread_id, all_of_it=True)
        change.add(thread_id, log.Closed(descendants, by))

    def stop(
        self, change: Change, thread_id: str, how: Literal["interrupt", "close"], by: Author, descendants: Descendants
    ) -> Generator[Step, Any, None]:
        """A thread is interrupted or closed, perhaps with those below. Who is at work and is stopped with others does
        not begin again because these have ended."""
        path = change.of(thread_id).path
        tree = yield from self._knows_tree(change, thread_id)
        below = [each for each in tree if rules.is_below(each.path, path)] if descendants != "detach" else []
        if below:
            change.stop(*(each.thread_id for each in (change.of(thread_id), *map(change.take, below)) if each.open))
        yield from self._stopped(change, thread_id, how, by, descendants)
        for each in below:
            yield from self._stopped(change, each.thread_id, descendants, by, descendants)

    def _stopped(
        self, change: Change, thread_id: str, how: str, by: Author, descendants: Descendants
    ) -> Generator[Step, Any, None]:
        if how == "close":
            yield from self.close(change, thread_id, by, descendants)
        else:
            yield from self.interrupt(change, thread_id)
