"""An inbox as one would explain it: what the machine of inboxes compares the store with."""


class Message:
    """What the model knows of a message."""

    def __init__(self, seq: int, id_: str, source: str | None) -> None:
        self.seq, self.id, self.source = seq, id_, source
        self.handled, self.attempt, self.lease_until = False, 0, 0
        self.dies_at: int | None = None
        self.letter = ""  # what became of it since it died: dead, requeued, handled, discarded


class Model:
    """An inbox as one would explain it: messages, and how far they are handled without a gap."""

    def __init__(self, workspace_id: str) -> None:
        self.id = workspace_id
        self.head, self.floor = 0, 0
        self.inbox: list[Message] = []
        self.own = ""

    def open(self, upto: int) -> list[Message]:
        """What is not handled, in order."""
        return [each for each in self.inbox if not each.handled and each.seq <= upto]

    def claim(self, now: int, lease: int, count: int) -> list[tuple[str, int]]:
        """Hands out what nobody holds, and what matters still; letters that wait again wherever they stand."""
        fresh = [each for each in self.open(self.head) if each.dies_at is None or each.dies_at > now]
        free = [each for each in [*self.waiting(), *fresh] if each.lease_until <= now]
        free = sorted(free, key=lambda each: each.seq)[:count]
        for each in free:
            each.attempt, each.lease_until = each.attempt + 1, now + lease
        return [(each.id, each.attempt) for each in free]

    def waiting(self) -> list[Message]:
        """Letters that wait again."""
        return [each for each in self.inbox if each.letter == "requeued"]

    def settle_waiting(self, seq: int, attempt: int | None) -> None:
        """An ack up to a number means those of them that were handed out since, by then."""
        for each in self.waiting():
            if each.seq <= seq and each.lease_until and (attempt is None or attempt >= each.attempt):
                each.letter = "handled"

    def handle(self, done: list[Message], upto: int = 0) -> int:
        """These are handled, and all is up to a number; the floor moves over what has no gap."""
        for each in [*done, *self.open(upto)]:
            each.handled = True
        self.floor = max(self.floor, upto)
        left = [each.seq for each in self.open(self.head)]
        self.floor = max([self.floor, *(e.seq for e in self.inbox if not left or e.seq < left[0])])
        return self.floor
