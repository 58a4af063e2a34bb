"""The peers of a prompt: what others say of themselves, cleaned, fenced, shortened to the room there is, and kept in
pieces, so that a peer that changes costs its own piece and not a thousand others. Pure.

Above: prompt. Below: neutral.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from msgspec import Struct

from molecule_core.agent.neutral import line
from molecule_core.wire.prompts import bytes_of, tokens_of

MOST_NAME, MOST_DESCRIPTION, MOST_SKILL, MOST_SKILLS = 120, 500, 300, 24
FULL, NO_SKILLS, NAMES, SOME = range(4)
"""How far peers are shortened: not at all; without their skill lines; without descriptions; not all of them."""
MARKS = (None, "skills", "skills and description", "skills and description")
# Of peers that stand together in one piece: one that changes costs the making of a piece, and the joining of all.
_PIECE = 16
END, BETWEEN = "\n</peer>", "\n\n"
_DESCRIPTION, _SKILL = "\ndescription: ", "\n- "
# What needs no cleaning: visible ASCII but for what tags are made of.
_PLAIN = bytes(set(range(0x20, 0x7F)) - set(b"<>"))
# What is not plain in the fence of a peer that says nothing but its name: the signs of two tags, and two ends of lines.
_FENCE = len("<>\n\n<>")
# So many are looked at together: one of them that is not plain costs them a second look.
_TOGETHER = 64
_IDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


class Peer(Struct, frozen=True, gc=False):
    """A workspace that one may talk to, as its row and its card say it: nothing of it is trusted. `skills`: what each
    is called and for, in one text. `child`: it stands directly below."""

    id: str
    name: str
    status: str = ""
    description: str = ""
    skills: tuple[str, ...] = ()
    child: bool = False


class Clean(Struct, frozen=True, gc=False):
    """A peer fit to stand in a prompt: its fenced lines, and how many bytes each of its three forms has."""

    peer: Peer
    whole: str
    full: int
    no_skills: int
    names: int

    def text(self, level: int) -> str:
        """Its fenced lines in one of the forms."""
        if level == FULL:
            return self.whole
        return _lines(self.peer, self.peer.description if level == NO_SKILLS else "", "")


def clean(peer: Peer) -> Clean:
    """One line for each thing it says, without tags, frames, control and invisible characters."""
    return clean_all((peer,))[0]


def clean_all(peers: Sequence[Peer]) -> list[Clean]:
    """The same of several. Nearly all are plain, which is seen of many at once for an eighth of what cleaning costs."""
    skills = [_skill_lines(each) for each in peers]
    wholes = [_lines(each, each.description, lines) for each, lines in zip(peers, skills, strict=True)]
    data = "".join(wholes).encode(errors="surrogatepass")
    # What is not plain in the fences and between the lines is ours; one sign more, and somebody wrote it.
    ours = sum([_FENCE + len(each.skills) + bool(each.description) for each in peers])
    if len(data.translate(None, _PLAIN)) == ours and all(map(_is_short, peers, skills)):
        return list(map(_measured, peers, wholes, skills))
    if len(peers) > 1:
        return [clean(each) for each in peers]
    peer = _plain(peers[0])
    lines = _skill_lines(peer)
    return [_measured(peer, _lines(peer, peer.description, lines), lines)]


def _measured(peer: Peer, whole: str, skills: str) -> Clean:
    size = len if whole.isascii() else _size
    full = size(whole) + len(BETWEEN)
    no_skills = full - size(skills)
    names = no_skills - size(peer.description) - len(_DESCRIPTION) if peer.description else no_skills
    return Clean(peer, whole, full, no_skills, names)


def _lines(peer: Peer, description: str, skills: str) -> str:
    if description:
        description = f"{_DESCRIPTION}{description}"
    return f'<peer id="{peer.id}" status="{peer.status}">\nname: {peer.name}{description}{skills}{END}'


def _skill_lines(peer: Peer) -> str:
    return _SKILL + _SKILL.join(peer.skills) if peer.skills else ""


def _is_short(peer: Peer, skills: str) -> bool:
    return (
        0 < len(peer.name) <= MOST_NAME
        and len(peer.description) <= MOST_DESCRIPTION
        and len(peer.skills) <= MOST_SKILLS
        and (len(skills) <= MOST_SKILL or max(map(len, peer.skills)) <= MOST_SKILL)
        and '"' not in peer.id
        and '"' not in peer.status
    )


def _size(text: str) -> int:
    return len(text.encode())


def _plain(peer: Peer) -> Peer:
    id_ = "".join(each for each in peer.id[:128] if each in _IDS)
    shown = [fenced(each, MOST_SKILL) for each in peer.skills[:MOST_SKILLS]]
    return Peer(
        id=id_,
        name=fenced(peer.name, MOST_NAME) or id_ or "unnamed",
        status="".join(each for each in peer.status[:40] if each in _IDS),
        description=fenced(peer.description, MOST_DESCRIPTION),
        skills=tuple(each for each in shown if each),
        child=peer.child,
    )


def fenced(text: str, most: int) -> str:
    """A text of somebody else as one line that can neither open nor close a fence."""
    return line(text, most).replace("<", "\u2039").replace(">", "\u203a")  # control: peer-text-escaped


class Piece:
    """Some peers that stand together. Nothing of it changes; `digest` is made when asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def digest(self) -> bytes:
        """Names the text."""
        return hashlib.sha256(self.text.encode()).digest()


class PeerBlock:
    """All peers in their order, in the form that the room allows. `level`: how far they are shortened; `shown`: so many
    of them are there."""

    def __init__(self, peers: Iterable[Peer], room: int) -> None:
        given = list(peers)
        groups = [given[start : start + _TOGETHER] for start in range(0, len(given), _TOGETHER)]
        self._peers = [each for group in groups for each in clean_all(group)]
        self._places = {each.peer.id: place for place, each in enumerate(self._peers)}
        self._room = bytes_of(room)
        self._sums = [
            sum([each.full for each in self._peers]),
            sum([each.no_skills for each in self._peers]),
            sum([each.names for each in self._peers]),
        ]
        self._fit()
        self._make_all()

    def __len__(self) -> int:
        return len(self._peers)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All that is shown, in pieces that belong on lines of their own."""
        return tuple(self._pieces)

    def put(self, peer: Peer) -> bool:
        """A peer says other things of itself now. False: it is none of these."""
        new = clean(peer)
        place = self._places.get(new.peer.id)
        if place is None:
            return False
        old, self._peers[place] = self._peers[place], new
        self._sums[FULL] += new.full - old.full
        self._sums[NO_SKILLS] += new.no_skills - old.no_skills
        self._sums[NAMES] += new.names - old.names
        before = (self.level, self.shown)
        if before[0] != SOME or old.names != new.names:
            self._fit()
        if before != (self.level, self.shown):
            self._make_all()
        elif place < self.shown:
            number = place // _PIECE
            self._pieces[number] = self._piece(number)
        return True

    def _fit(self) -> None:
        """The least shortening that fits, how many are shown, and about how many tokens that is."""
        for level, size in enumerate(self._sums):
            if size <= self._room:
                self.level, self.shown, self.tokens = level, len(self._peers), tokens_of(size)
                return
        sums = list(accumulate([each.names for each in self._peers]))
        self.level, self.shown = SOME, bisect_right(sums, max(0, self._room))
        self.tokens = tokens_of(sums[self.shown - 1]) if self.shown else 0

    def _make_all(self) -> None:
        self._pieces = [self._piece(number) for number in range(-(-self.shown // _PIECE))]

    def _piece(self, number: int) -> Piece:
        start = number * _PIECE
        some = self._peers[start : min(start + _PIECE, self.shown)]
        level = min(self.level, NAMES)
        return Piece(BETWEEN.join([each.text(level) for each in some]))


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


def carded(card: Any) -> tuple[str, tuple[str, ...]]:
    """The description and the skills of a card."""
    if not isinstance(card, dict):
        return "", ()
    listed = card.get("skills")
    some = [_skill(each) for each in listed[: 2 * MOST_SKILLS]] if isinstance(listed, list) else []
    return _text(card.get("description")), tuple(each for each in some if each)


def _skill(said: Any) -> str:
    if not isinstance(said, dict):
        return _text(said)
    name, about = _text(said.get("name")) or _text(said.get("id")), _text(said.get("description"))
    return f"{name}: {about}" if name and about else name


def _text(value: Any) -> str:
    """The beginning of a text: more of it is never shown."""
    return value[:2000] if isinstance(value, str) else ""
