"""What ought to become of threads: a plain account of them, written from docs/explanation/threads.md.

It imports nothing of the product and counts with names and whole seconds of its own.
"""

from collections.abc import Iterator
from typing import Literal

LEASE_SECONDS = 60
QUEUE, LIVE, LIFETIME, DEPTH = 3, 3, 6, 2
"""The limits of a tree: turns of a thread that wait, agents at work, agents in all, levels of agents."""
TASK, MESSAGE, FINAL = "NEW_TASK", "MESSAGE", "FINAL_ANSWER"
How = Literal["completed", "failed", "interrupted"]
Below = Literal["detach", "interrupt", "close"]
_STANDS = {"completed": "completed", "failed": "errored", "interrupted": "interrupted"}
_STOPPED = "Agent was interrupted."


class Letter:
    """What one agent has written to another one."""

    def __init__(self, author: "Talk", sort: str, text: str, *, wakes: bool) -> None:
        self.author, self.sort, self.text, self.wakes = author, sort, text, wakes
        self.state = "accepted"
        self.turn: Turn | None = None

    def is_read(self, turn: "Turn | None") -> None:
        """It is shown, in a turn or beside all of them."""
        self.state, self.turn = "delivered", turn


class Turn:
    """A turn; `id` is what the product calls it, once somebody has looked. One that sums up what was said answers
    nobody."""

    def __init__(self, asker: "Talk | None", words: tuple[str, ...] = (), *, sums_up: bool = False) -> None:
        self.asker, self.words, self.sums_up = asker, words, sums_up
        self.id = ""


class Wait:
    """A thread waits for others."""

    def __init__(self, targets: "list[Talk]", mode: str, until: int, turn: Turn | None, *, is_heard: bool) -> None:
        self.targets, self.mode, self.until, self.turn = targets, mode, until, turn
        self.is_heard = is_heard
        """The user has said something meanwhile."""
        self.status = "inProgress"
        self.ended = set[str]()


class Talk:
    """One thread."""

    def __init__(self, id_: str, parent: "Talk | None", path: str, wake: str) -> None:
        self.id, self.path, self.wake = id_, path, wake
        self.root: Talk = self if parent is None else parent.root
        self.status, self.message = "pending_init", None
        self.running: Turn | None = None
        self.queue = list[Turn]()
        self.mail = list[Letter]()
        self.closed = False
        self.ends, self.last_words = 0, ""
        """How often it has ended, and what was told of the last time."""
        self.owner: str | None = None
        self.generation = self.until = 0
        self.is_blind = False
        """Whoever holds it has been shown nothing yet."""
        self.is_unread = False
        """The user has said something that was not shown."""
        self.fresh = list[str]()
        """What of that the engine has to be told with its next call."""
        self.waits: dict[str, Wait] = {}
        self.reports: dict[str, int] = {}
        self.log = list[str]()
        """What its model has read and said, in words."""

    @property
    def open(self) -> bool:
        """Whether there is something to do."""
        return self.running is not None or bool(self.queue)

    @property
    def listens(self) -> bool:
        """Whether a turn runs that takes what the user says."""
        return self.running is not None and not self.running.sums_up

    @property
    def depth(self) -> int:
        """How far below the root it stands."""
        return self.path.count("/")

    def is_below(self, other: "Talk") -> bool:
        """Whether it is an agent of another one, or of one of those."""
        return self.root is other.root and self.path.startswith(f"{other.path}/")

    # -- the user and the engine ---------------------------------------------------------------------------------------

    def hears(self) -> None:
        """The user has said something."""
        self.is_unread = True
        for wait in self.waits.values():
            wait.is_heard = True

    def accepts(self, turn: Turn, *, of_user: bool = False) -> None:
        """A turn will be run."""
        self.queue.append(turn)
        if self.running is None:
            self.status, self.message = "pending_init", None
        if of_user:
            self.hears()

    def steered(self, text: str) -> None:
        """The user joins the turn that runs."""
        self.log.append(f"user: {text}")
        self.fresh.append(text)
        self.hears()

    def may_be_claimed(self, owner: str, now: int) -> bool:
        """Whether an engine may have it."""
        return not self.closed and (self.owner in (None, owner) or self.until <= now)

    def claimed(self, owner: str, now: int) -> None:
        """An engine has it: nobody else writes from now on."""
        self.owner, self.generation, self.until = owner, self.generation + 1, now + LEASE_SECONDS
        self.is_blind, self.fresh = True, []

    def holds(self, generation: int) -> bool:
        """Whether who shows this may write."""
        return self.owner is not None and self.generation == generation

    def looks(self, now: int) -> list[str]:
        """The engine is told all that is there; what it did not know of the user's words."""
        told, self.fresh = self.fresh, []
        self.is_blind = self.is_unread = False
        self.until = now + LEASE_SECONDS
        return told

    def hears_back(self, now: int) -> list[str]:
        """What the engine is told with a line that it adds: nothing, if it has begun nothing since it has it."""
        self.until = now + LEASE_SECONDS
        return [] if self.is_blind else self.looks(now)

    def begins(self, now: int) -> None:
        """The next turn begins: letters first, in order, then what it was given. One that sums up reads no letters."""
        self.running = self.queue.pop(0)
        self.status, self.message = "running", None
        letters = [] if self.running.sums_up else self.waiting()
        self.reports |= {letter.author.id: letter.author.ends for letter in last_ends(letters)}
        for letter in letters:
            letter.is_read(self.running)
            self.log.append(f"{letter.sort} of {letter.author.path}: {letter.text}")
        for text in self.running.words:
            self.log.append(f"user: {text}")
            self.hears()
        self.looks(now)

    def waiting(self) -> list[Letter]:
        """The letters that it has not been shown."""
        return [letter for letter in self.mail if letter.state == "accepted"]


def last_ends(letters: list[Letter]) -> list[Letter]:
    """The letters that say the last ends of their authors: the newest of each, if it has the words."""
    last = {letter.author: letter for letter in letters if letter.sort == FINAL}
    return [each for each in last.values() if each.text == each.author.last_words]


class Talks:
    """All threads of an organisation, and what they do to each other."""

    def __init__(self) -> None:
        self.all = list[Talk]()
        self.stopped = set[Talk]()

    def tree(self, talk: Talk) -> list[Talk]:
        """Those of its tree, the oldest first."""
        return [each for each in self.all if each.root is talk.root]

    def at_work(self, talk: Talk) -> int:
        """How many agents of its tree have something to do."""
        return sum(each.open for each in self.tree(talk) if each is not each.root)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def end(self, talk: Talk, turn: Turn, how: How, words: str = "", *, goes_on: bool = True) -> set[Talk]:
        """A turn is over: whoever asked for it hears of it, once; those who were told. `words`: the answer, or why
        there is none."""
        askers = [turn.asker]
        if talk.running is turn:
            talk.running = None
            askers += self._answered(talk, turn, how)
        else:
            talk.queue.remove(turn)
        talk.ends += 1
        talk.last_words = {"completed": words, "failed": f"Agent errored: {words}", "interrupted": _STOPPED}[how]
        if talk.running is None:
            self._torn(talk)
            idle = ("pending_init", None) if talk.queue else (_STANDS[how], words or None)
            talk.status, talk.message = idle  # type: ignore[assignment]
        told = {asker: None for asker in askers if asker is not None and (goes_on or asker is not talk)}
        for asker in told:
            self._tell(talk, asker, talk.last_words)
        if goes_on:
            self._again(talk, how)
        return {*told}

    def _answered(self, talk: Talk, turn: Turn, how: How) -> "Iterator[Talk]":
        for letter in talk.mail:
            if letter.state == "delivered" and letter.turn is turn:
                letter.state = "answered" if how == "completed" else "failed"
                if letter.wakes and letter.sort != FINAL:
                    yield letter.author

    def _torn(self, talk: Talk) -> None:
        """What it waits for, in a turn or outside of all, it does not wait for any more."""
        for wait in talk.waits.values():
            if wait.status == "inProgress":
                wait.status = "interrupted"

    def _tell(self, talk: Talk, asker: Talk, text: str) -> None:
        """By the agent's own policy; the last end of all tells the digests too, whoever ends last."""
        is_last = not self.has_asked(asker)
        digests = any(letter.sort == FINAL and letter.author.wake == "digest" for letter in asker.waiting())
        wakes = talk.wake == "wake" or (is_last and (talk.wake == "digest" or digests))
        wakes = wakes and asker not in self.stopped
        asker.mail.append(Letter(talk, FINAL, text, wakes=wakes))
        if wakes:
            self.wake(asker)

    def has_asked(self, asker: Talk) -> bool:
        """Whether a turn that it has asked for is open."""
        turns = [turn for each in self.all for turn in (each.running, *each.queue) if turn is not None]
        return any(turn.asker is asker for turn in turns)

    def _again(self, talk: Talk, how: How) -> None:
        """What came meanwhile and was not shown gets a turn of its own."""
        will_answer = any(not turn.sums_up for turn in talk.queue)
        if how == "completed" and (talk.is_unread or talk.is_blind) and not will_answer:
            talk.accepts(Turn(None), of_user=True)
        elif any(letter.wakes for letter in talk.waiting()):
            self.wake(talk)

    def wake(self, talk: Talk, asker: Talk | None = None) -> None:
        """One that has nothing to do gets a turn."""
        if not talk.open and not talk.closed:
            talk.accepts(Turn(asker))

    # -- stopping ------------------------------------------------------------------------------------------------------

    def interrupt(self, talk: Talk, *, all_of_it: bool = False) -> None:
        """What runs is over; if nothing does, or with all of it, what waits too, and what it was asked and has not
        read."""
        running, queued, told = talk.running, [*talk.queue], set[Talk]()
        if running is not None:
            told |= self.end(talk, running, "interrupted", goes_on=not all_of_it)
        if running is None or all_of_it:
            for turn in queued:
                told |= self.end(talk, turn, "interrupted", goes_on=False)
            self._fails(talk, told)

    def _fails(self, talk: Talk, told: set[Talk]) -> None:
        """What it was asked by letters that it will not answer: whoever wrote them and was not told yet is told. What
        it asked itself it need not be told."""
        unread = [letter for letter in talk.waiting() if letter.wakes and letter.sort != FINAL]
        for letter in unread:
            letter.state = "failed"
        for asker in dict.fromkeys(letter.author for letter in unread):
            if asker is not talk and asker not in told:
                self._tell(talk, asker, _STOPPED)

    def close(self, talk: Talk) -> None:
        """It takes nothing more."""
        if not talk.closed:
            self._torn(talk)
            self.interrupt(talk, all_of_it=True)
            talk.closed, talk.status, talk.message = True, "shutdown", None
            talk.ends, talk.last_words = talk.ends + 1, _STOPPED

    def below(self, talk: Talk, what: Below) -> None:
        """And those below it."""
        for each in self.tree(talk):
            if each.is_below(talk) and what == "close":
                self.close(each)
            elif each.is_below(talk) and what == "interrupt":
                self.interrupt(each)

    def stops(self, talk: Talk, how: str, what: Below) -> None:
        """It is interrupted or closed, with those below: what ends among those who are stopped at work wakes none."""
        together = [each for each in self.tree(talk) if each is talk or each.is_below(talk)]
        self.stopped = {each for each in together if each.open} if what != "detach" else set()
        if how == "interrupt":
            self.interrupt(talk)
        else:
            self.close(talk)
        self.below(talk, what)
        self.stopped = set()

    def resume(self, talk: Talk) -> None:
        """It takes work again."""
        if talk.closed:
            talk.closed, talk.status, talk.message = False, "pending_init", None

    # -- agents --------------------------------------------------------------------------------------------------------

    def may_spawn(self, talk: Talk, name: str) -> bool:
        """Whether it may have one more agent."""
        tree = self.tree(talk)
        is_taken = any(each.path == f"{talk.path}/{name}" for each in tree)
        is_full = self.at_work(talk) >= LIVE or len(tree) - 1 >= LIFETIME or talk.depth >= DEPTH
        return not (talk.closed or is_taken or is_full)

    def spawn(self, talk: Talk, id_: str, name: str, wake: str) -> Talk:
        """A new agent, at work on a message."""
        child = Talk(id_, talk, f"{talk.path}/{name}", wake)
        self.all.append(child)
        child.mail.append(Letter(talk, TASK, "Dig.", wakes=True))
        self.wake(child, talk)
        return child

    def may_write(self, talk: Talk, target: Talk, *, wakes: bool) -> bool:
        """Whether it may write to another one, and wake it."""
        if target.closed or (wakes and target is talk.root):
            return False
        is_idle_agent = not target.open and target is not target.root
        return not (wakes and is_idle_agent and self.at_work(target) >= LIVE)

    def write(self, talk: Talk, target: Talk, *, wakes: bool) -> None:
        """A letter; one that wakes also gives an idle agent a turn, whose end comes back."""
        target.mail.append(Letter(talk, MESSAGE, "More.", wakes=wakes))
        if wakes:
            self.wake(target, talk)

    # -- waiting -------------------------------------------------------------------------------------------------------

    def wait(self, talk: Talk, targets: list[Talk], mode: str, until: int) -> Wait:
        """It begins to wait. What the user has said in its turn and it was not shown ends that at once."""
        is_heard = talk.running is not None and talk.is_unread and not talk.is_blind
        return Wait(targets, mode, until, talk.running, is_heard=is_heard)

    def look(self, talk: Talk, wait: Wait, now: int) -> None:
        """Whether it is over: by ends that it was not told before, since none is at work, by the user, or by time."""
        if wait.status != "inProgress":
            return
        ended = [each for each in wait.targets if each.ends > talk.reports.get(each.id, 0)]
        idle = [each for each in wait.targets if each.ends and each.running is None and not each.queue]
        is_settled = {*ended, *idle} == {*wait.targets}
        is_over = is_settled or (wait.mode == "any" and bool(ended))
        if not (is_over or wait.is_heard or now >= wait.until):
            return
        wait.status = "interrupted" if wait.is_heard and not is_over else "completed"
        for each in ended:
            talk.reports[each.id] = each.ends
            wait.ended.add(each.id)
        if is_settled and not ended:  # no target is at work: each last end is reported again
            wait.ended |= {each.id for each in idle}
        self._has_told(talk, ended)

    def _has_told(self, talk: Talk, ended: list[Talk]) -> None:
        """The last letter of each that has ended is read, if it says what the wait has told. Was that to wake, and
        nothing that was asked for is open, the digests that it would have brought wake instead."""
        said = [each for each in last_ends(talk.waiting()) if each.author in ended]
        for letter in said:
            letter.is_read(talk.running)
        if any(letter.wakes for letter in said) and not self.has_asked(talk):
            for letter in talk.waiting():
                letter.wakes |= letter.sort == FINAL and letter.author.wake == "digest"
