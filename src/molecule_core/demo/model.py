"""What a seat of the company is, what its agent hears, and what it does about it. Data only."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Behaviour = Literal["lead", "specialist", "desk"]
Host = Literal["none", "mcp"]
Word = Annotated[str, Meta(min_length=1, max_length=100)]
Line = Annotated[str, Meta(min_length=1, max_length=500)]
Days = Annotated[float, Meta(ge=0, le=10_000)]


# -- crafts: what an agent makes of a text -----------------------------------------------------------------------------


class CraftOf(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    """A way to answer a text. `title` stands above what it says."""

    title: Line


class Topics(CraftOf, frozen=True):
    """What the text is about, at most `most` things."""

    most: Annotated[int, Meta(ge=1, le=20)] = 5


class Check(Struct, frozen=True, forbid_unknown_fields=True):
    """Says its sentence when one of the words is in the text, or unless one of them is. `#` stands for any number."""

    say: Line
    when: tuple[Word, ...] = ()
    unless: tuple[Word, ...] = ()


class Checks(CraftOf, frozen=True):
    """Rules held against the text."""

    items: Annotated[tuple[Check, ...], Meta(min_length=1, max_length=100)]


class Estimate(CraftOf, frozen=True):
    """Days for the things that the text names; `otherwise` if it names none that is in the table."""

    days: Annotated[dict[Word, Days], Meta(min_length=1, max_length=100)]
    otherwise: Days = 1.0


class Plan(CraftOf, frozen=True):
    """Steps. In each, `{thing}` stands for the first thing that the text is about, `{things}` for all of them."""

    steps: Annotated[tuple[Line, ...], Meta(min_length=1, max_length=20)]


Craft = Topics | Checks | Estimate | Plan


# -- seats -------------------------------------------------------------------------------------------------------------


class Seat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One seat, and those below it. `seconds`: how long its agent works on an answer, so that a person can see it.
    `host`: what the agent lives in; in a host of MCP servers it has tools, and does not speak HTTP."""

    name: str
    role: str
    behaviour: Behaviour
    host: Host = "none"
    seconds: Annotated[float, Meta(ge=0, le=60)] = 1.0
    craft: tuple[Craft, ...] = ()
    seat: "tuple[Seat, ...]" = ()


class Posting(Struct, frozen=True):
    """All that the agent of a seat is told when it starts."""

    url: str
    workspace_id: str
    token: str
    seat: Seat
    folder: str = ""
    """Where it may keep what it must know in its next life."""


# -- what an agent hears -----------------------------------------------------------------------------------------------


class Peer(Struct, frozen=True):
    """A workspace one may talk to. `words`: the stems of what it says of itself; without skills it is asked nothing."""

    id: str
    name: str
    place: Literal["above", "beside", "below"]
    skilled: bool = True
    words: frozenset[str] = frozenset()


class Message(Struct, frozen=True, kw_only=True):
    """A message as it was handed out. `name` is its messageId; `sender` a workspace's id, or None for a person.

    `in_reply_to` is the messageId of the question that it answers."""

    id: str
    attempt: int
    name: str
    text: str
    sender: str | None = None
    in_reply_to: str | None = None
    wants_answer: bool = True

    @property
    def is_answer(self) -> bool:
        """Whether a peer answers something with it."""
        return self.sender is not None and self.in_reply_to is not None

    @property
    def is_request(self) -> bool:
        """Whether it is a question that is owed an answer."""
        return self.wants_answer and not self.is_answer


# -- what it does ------------------------------------------------------------------------------------------------------


class Work(Struct, frozen=True):
    """Takes a moment over something, in sight of everybody."""

    seconds: float
    task: str


class Say(Struct, frozen=True):
    """Writes to the user. The same key is one effect."""

    text: str
    key: str


class Send(Struct, frozen=True):
    """Writes to a peer. The same messageId is one effect."""

    to: str
    text: str
    message_id: str
    intent: Literal["request", "inform"]
    in_reply_to: str | None = None


class Ack(Struct, frozen=True):
    """Says that a message is handled."""

    message: Message


Action = Work | Say | Send | Ack
