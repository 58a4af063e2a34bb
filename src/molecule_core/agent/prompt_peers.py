"""The peers of a prompt: what others say of themselves, cleaned, fenced, shortened to the room there is, and kept in
pieces, so that a peer that changes costs its own piece and not a thousand others. Pure.

Above: prompt. Below: neutral.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.agent.neutral import line
from molecule_core.wire.prompts import tokens_of

MOST_NAME, MOST_DESCRIPTION, MOST_SKILL, MOST_SKILLS = 120, 500, 200, 24
FULL, NO_SKILLS, NAMES, SOME = range(4)
"""How far peers are shortened: not at all; without their skill lines; without descriptions; not all of them."""
MARKS = (None, "skills", "skills and description", "skills and description")
# Of peers that stand together in one piece: one that changes costs the making of a piece, and the joining of all.
_PIECE = 16
_IDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


class Peer(Struct, frozen=True):
    """A workspace that one may talk to, as its row and its card say it: nothing of it is trusted. `skills`: names and
    descriptions. `child`: it stands directly below."""

    id: str
    name: str
    status: str = ""
    description: str = ""
    skills: tuple[tuple[str, str], ...] = ()
    child: bool = False


class Clean(NamedTuple):
    """A peer fit to stand in a prompt, and about how many tokens each of its three forms has."""

    id: str
    name: str
    head: str
    description: str
    skills: str
    tokens: tuple[int, int, int]

    def text(self, level: int) -> str:
        """Its fenced lines."""
        if level == FULL:
            return f"{self.head}{self.description}{self.skills}\n</peer>"
        return f"{self.head}{self.description}\n</peer>" if level == NO_SKILLS else f"{self.head}\n</peer>"


def clean(peer: Peer) -> Clean:
    """One line for each thing it says, without tags, frames, control and invisible characters."""
    skills = "".join([f"\n- {name}: {text}" if text else f"\n- {name}" for name, text in peer.skills])
    # Nearly all are plain: that is seen at once, and costs a tenth of making them so.
    raw = f"{peer.id} {peer.status} {peer.name} {peer.description} {skills}"
    if (
        not raw.isascii()
        or "<" in raw
        or ">" in raw
        or '"' in peer.id
        or '"' in peer.status
        or raw.count("\n") != len(peer.skills)
        or not raw.replace("\n", "").isprintable()
        or len(peer.name) > MOST_NAME
        or not peer.name
        or len(peer.description) > MOST_DESCRIPTION
        or len(peer.skills) > MOST_SKILLS
        or (len(skills) > MOST_SKILL and any(len(n) > MOST_NAME or len(t) > MOST_SKILL for n, t in peer.skills))
    ):
        peer = _plain(peer)
        skills = "".join([f"\n- {name}: {text}" if text else f"\n- {name}" for name, text in peer.skills])
    head = f'<peer id="{peer.id}" status="{peer.status}">\nname: {peer.name}'
    description = f"\ndescription: {peer.description}" if peer.description else ""
    size = len(head.encode()) + 9
    more = len(description.encode())
    tokens = (tokens_of(size + more + len(skills.encode())), tokens_of(size + more), tokens_of(size))
    return Clean(peer.id, peer.name, head, description, skills, tokens)


def _plain(peer: Peer) -> Peer:
    shown = [(fenced(name, MOST_NAME), fenced(text, MOST_SKILL)) for name, text in peer.skills[:MOST_SKILLS]]
    id_ = "".join(each for each in peer.id[:128] if each in _IDS)
    return Peer(
        id=id_,
        name=fenced(peer.name, MOST_NAME) or id_ or "unnamed",
        status="".join(each for each in peer.status[:40] if each in _IDS),
        description=fenced(peer.description, MOST_DESCRIPTION),
        skills=tuple((name, text) for name, text in shown if name),
    )


def fenced(text: str, most: int) -> str:
    """A text of somebody else as one line that can neither open nor close a fence."""
    return line(text, most).replace("<", "\u2039").replace(">", "\u203a")


class PeerBlock:
    """All peers in their order, in the form that the room allows. `text` and `digest` are those of the whole."""

    def __init__(self, peers: Iterable[Peer], room: int) -> None:
        self._peers = [clean(each) for each in peers]
        self._places = {each.id: place for place, each in enumerate(self._peers)}
        self._room = room
        self._sums = [sum(each.tokens[level] for each in self._peers) for level in range(3)]
        self.level, self.shown = self._fitting()
        self._pieces: list[str] = []
        self._digests: list[bytes] = []
        self._make_all()

    def __len__(self) -> int:
        return len(self._peers)

    @property
    def tokens(self) -> int:
        """About how many all that is shown has."""
        level = min(self.level, NAMES)
        whole = self.shown == len(self._peers)
        return self._sums[level] if whole else sum(each.tokens[level] for each in self.listed)

    @property
    def listed(self) -> Sequence[Clean]:
        """The peers that are shown."""
        return self._peers if self.shown == len(self._peers) else self._peers[: self.shown]

    @property
    def pieces(self) -> tuple[str, ...]:
        """All that is shown, in pieces that belong on lines of their own."""
        return tuple(self._pieces)

    @property
    def digest(self) -> bytes:
        """Names what is shown."""
        return b"".join(self._digests)

    def put(self, peer: Peer) -> bool:
        """A peer says other things of itself now. False: it is none of these."""
        new = clean(peer)
        place = self._places.get(new.id)
        if place is None:
            return False
        old, self._peers[place] = self._peers[place], new
        for level in range(3):
            self._sums[level] += new.tokens[level] - old.tokens[level]
        before = (self.level, self.shown)
        self.level, self.shown = self._fitting()
        if before != (self.level, self.shown):
            self._make_all()
        elif place < self.shown:
            number = place // _PIECE
            self._pieces[number], self._digests[number] = self._piece(number)
        return True

    def _fitting(self) -> tuple[int, int]:
        """The least shortening that fits, and how many are shown."""
        for level, tokens in enumerate(self._sums):
            if tokens <= self._room:
                return level, len(self._peers)
        sums = list(accumulate([each.tokens[NAMES] for each in self._peers]))
        return SOME, bisect_right(sums, max(0, self._room))

    def _make_all(self) -> None:
        made = [self._piece(number) for number in range(-(-self.shown // _PIECE))]
        self._pieces = [text for text, _ in made]
        self._digests = [digest for _, digest in made]

    def _piece(self, number: int) -> tuple[str, bytes]:
        start = number * _PIECE
        some = self._peers[start : min(start + _PIECE, self.shown)]
        level = min(self.level, NAMES)
        text = "\n".join([each.text(level) for each in some])
        return text, hashlib.sha256(text.encode()).digest()


# -- what a card says --------------------------------------------------------------------------------------------------


def peer_of(row: Any, own_id: str) -> Peer | None:
    """A peer from its row in the list of peers; None if it is none. A card is any JSON."""
    if not isinstance(row, dict) or not _text(row.get("id")):
        return None
    said = carded(row.get("agent_card"))
    return Peer(
        id=_text(row["id"]),
        name=_text(row.get("name")),
        status=_text(row.get("status")),
        description=said[0] or _text(row.get("role")),
        skills=said[1],
        child=row.get("parent_id") == own_id,
    )


def carded(card: Any) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The description and the skills of a card."""
    if not isinstance(card, dict):
        return "", ()
    found = []
    listed = card.get("skills")
    for each in listed[: MOST_SKILLS * 2] if isinstance(listed, list) else ():
        if isinstance(each, dict):
            found.append((_text(each.get("name")) or _text(each.get("id")), _text(each.get("description"))))
        elif isinstance(each, str):
            found.append((_text(each), ""))
    return _text(card.get("description")), tuple((name, text) for name, text in found if name)


def _text(value: Any) -> str:
    """The beginning of a text: more of it is never shown."""
    return value[:2000] if isinstance(value, str) else ""
