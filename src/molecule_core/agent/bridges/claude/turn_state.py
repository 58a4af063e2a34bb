"""State of the messages that were sent to one process of Claude Code: begun, repeated, answered."""

import asyncio

from molecule_core.agent.bridges.claude.lines import ResultLine


class SentMessage:
    """A message that was sent. `ended`: resolves with the result that answers it."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.is_begun = False
        """Whether a turn works on it."""
        self.echoed = asyncio.Event()
        """Set when the program has repeated it to us or has reported it as done."""
        self.ended: asyncio.Future[ResultLine] = asyncio.get_running_loop().create_future()

    def is_ignored(self) -> bool:
        """Return whether no turn works or worked on it."""
        return not self.is_begun and not self.ended.done()


class SentMessages:
    """Messages that are not answered yet, oldest first, and answers that were not awaited yet."""

    def __init__(self) -> None:
        self._messages: dict[str, SentMessage] = {}

    def add(self, id_: str) -> SentMessage:
        """Add a message that is being sent."""
        self._messages[id_] = SentMessage(id_)
        return self._messages[id_]

    def find(self, id_: str) -> SentMessage | None:
        """Return a message that was sent and whose answer was not taken."""
        return self._messages.get(id_)

    def remove(self, id_: str) -> None:
        """Remove a message whose answer was taken."""
        self._messages.pop(id_, None)

    def mark_begun(self, ids: tuple[str, ...]) -> None:
        """Mark that a turn works on messages; without ids, as of older versions, on the oldest open one."""
        for each in self._messages.values():
            if each.id in ids:
                each.is_begun = True
        if not ids and (oldest := self._oldest_open()) is not None:
            oldest.is_begun = True

    def mark_echoed(self, id_: str) -> None:
        """Mark that the program knows a message."""
        if (found := self._messages.get(id_)) is not None:
            found.echoed.set()

    def resolve(self, result: ResultLine, *, is_stopping: bool) -> None:
        """Resolve the messages that a result answers.

        One that names no message of ours ends a turn that the program began by itself, unless this version names none
        or the turn was interrupted."""
        ids = result.answered_ids or ()
        named = [each for each in self._messages.values() if each.id in ids and not each.ended.done()]
        if not named and (result.answered_ids is None or is_stopping) and (oldest := self._oldest_open()) is not None:
            named = [oldest]
        for each in named:
            each.ended.set_result(result)

    def fail_all(self, error: Exception) -> None:
        """Fail all messages: the program has ended."""
        for each in self._messages.values():
            if not each.ended.done():
                each.ended.set_exception(error)
                each.ended.exception()  # marks it as retrieved: not every message is awaited

    def answered_together(self, result: ResultLine) -> tuple[str, ...]:
        """Return the messages that were resolved with this very result."""
        return tuple(
            each.id
            for each in self._messages.values()
            if each.ended.done() and not each.ended.exception() and each.ended.result() is result
        )

    def _oldest_open(self) -> SentMessage | None:
        return next((each for each in self._messages.values() if not each.ended.done()), None)
