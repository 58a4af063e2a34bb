"""Who may see what, as a plain account: it knows nothing of the product, only who wrote what to whom.

Everything that somebody writes carries a mark that is its own. Persons of an organisation may see all of it, nobody of
another one anything; a workspace what it wrote, what was written to it, and what climbed to it.
"""

import re

from msgspec import Struct

MARK = re.compile(rb"mk-\d+-\d+")


class Seat(Struct):
    """A workspace; `above`: those that its requests climb to, the nearest first."""

    org: int
    id: str
    token: str
    above: list["Seat"]


class Person(Struct):
    """A person who may read all of an organisation."""

    org: int
    token: str


class Thing(Struct, frozen=True):
    """Something that was made. `place`: the workspace under which it is found; `seats`: those that may see it."""

    id: str
    place: str
    seats: frozenset[str]


class Org(Struct):
    """One organisation and what there is in it. `things`: by their kind."""

    number: int
    id: str
    seats: list[Seat]
    people: list[Person]
    things: dict[str, list[Thing]]


class Model:
    """Marks and who may see them."""

    def __init__(self) -> None:
        self._marks: dict[bytes, tuple[int, frozenset[str]]] = {}

    def mark(self, org: int, *seats: Seat) -> str:
        """A new mark in something that these may see."""
        mark = f"mk-{org}-{len(self._marks)}"
        self._marks[mark.encode()] = (org, frozenset(seat.id for seat in seats))
        return mark

    def leaks(self, caller: Seat | Person, said: bytes) -> list[bytes]:
        """The marks in something that a caller was shown and must not see."""
        return [mark for mark in set(MARK.findall(said)) if not self.may_see(caller, mark)]

    def is_foreign(self, caller: Seat | Person, mark: bytes) -> bool:
        """Whether somebody of another organisation has made a mark, or nobody."""
        return self._marks.get(mark, (-1,))[0] != caller.org

    def may_see(self, caller: Seat | Person, mark: bytes) -> bool:
        """Whether a mark is for a caller. (One that nobody made is for nobody.)"""
        org, seats = self._marks.get(mark, (-1, frozenset()))
        return org == caller.org and (isinstance(caller, Person) or caller.id in seats)
