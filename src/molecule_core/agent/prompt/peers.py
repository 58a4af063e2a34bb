"""Formats the peers of a prompt: sanitized, fenced, shortened to the token budget. Pure.

They are kept in chunks, so that a changed peer costs one chunk and not a thousand others.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from msgspec import Struct

from molecule_core.agent.sanitize import sanitize_line
from molecule_core.wire.schemas.prompts import bytes_for_tokens, estimate_tokens

MAX_NAME, MAX_DESCRIPTION, MAX_SKILL, MAX_PEER_SKILLS = 120, 500, 300, 24
LEVEL_FULL, LEVEL_NO_SKILLS, LEVEL_NAMES, LEVEL_SOME = range(4)
"""How far peers are shortened: not at all; without skill lines; without descriptions; not all peers."""
SHORTENED_MARKS = (None, "skills", "skills and description", "skills and description")
# Peers per chunk: a changed peer costs building one chunk and joining all.
_CHUNK_PEERS = 16
LIMITED_STATUS = "limited"
"""Shown instead of the status of a peer that a vendor's limit keeps from working."""
PEER_END, SEPARATOR = "\n</peer>", "\n\n"
_DESCRIPTION, _SKILL = "\ndescription: ", "\n- "
# Bytes that need no sanitizing: visible ASCII except the characters of tags.
_PLAIN_BYTES = bytes(set(range(0x20, 0x7F)) - set(b"<>"))
# Other bytes in the fence of a peer with only a name: the brackets of two tags, and two line ends.
_FENCE_BYTES = len("<>\n\n<>")
# Peers checked at once: one that is not plain costs its batch a second check.
_CLEAN_BATCH = 64
_ID_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


class PromptPeer(Struct, frozen=True, gc=False):
    """A reachable workspace as its row and card describe it; all fields are untrusted.

    `skills`: name and purpose of each in one text. `is_child`: it is a direct child.
    """

    id: str
    name: str
    status: str = ""
    description: str = ""
    skills: tuple[str, ...] = ()
    is_child: bool = False


class CleanPeer(Struct, frozen=True, gc=False):
    """A sanitized peer: its fenced lines, and the byte size of each of its three forms."""

    peer: PromptPeer
    full_text: str
    full_size: int
    no_skills_size: int
    names_size: int

    def text(self, level: int) -> str:
        """Return the fenced lines in the form of `level`."""
        if level == LEVEL_FULL:
            return self.full_text
        return _format_peer(self.peer, self.peer.description if level == LEVEL_NO_SKILLS else "", "")


def clean_peer(peer: PromptPeer) -> CleanPeer:
    """Sanitize a peer: one line per value, without tags, frames, control and invisible characters."""
    return clean_peers((peer,))[0]


def clean_peers(peers: Sequence[PromptPeer]) -> list[CleanPeer]:
    """Sanitize several peers.

    Nearly all are plain, and checking a batch at once costs an eighth of sanitizing it.
    """
    skills = [_skill_lines(each) for each in peers]
    full_texts = [_format_peer(each, each.description, lines) for each, lines in zip(peers, skills, strict=True)]
    data = "".join(full_texts).encode(errors="surrogatepass")
    # The fences and line ends account for exactly these bytes; any further one is in a peer's own text.
    fence_bytes = sum([_FENCE_BYTES + len(each.skills) + bool(each.description) for each in peers])
    if len(data.translate(None, _PLAIN_BYTES)) == fence_bytes and all(map(_is_short, peers, skills)):
        return list(map(_measure_peer, peers, full_texts, skills))
    if len(peers) > 1:
        return [clean_peer(each) for each in peers]
    peer = _sanitize_peer(peers[0])
    lines = _skill_lines(peer)
    return [_measure_peer(peer, _format_peer(peer, peer.description, lines), lines)]


def _measure_peer(peer: PromptPeer, full_text: str, skills: str) -> CleanPeer:
    size = len if full_text.isascii() else _utf8_size
    full = size(full_text) + len(SEPARATOR)
    no_skills = full - size(skills)
    names = no_skills - size(peer.description) - len(_DESCRIPTION) if peer.description else no_skills
    return CleanPeer(peer, full_text, full, no_skills, names)


def _format_peer(peer: PromptPeer, description: str, skills: str) -> str:
    if description:
        description = f"{_DESCRIPTION}{description}"
    return f'<peer id="{peer.id}" status="{peer.status}">\nname: {peer.name}{description}{skills}{PEER_END}'


def _skill_lines(peer: PromptPeer) -> str:
    return _SKILL + _SKILL.join(peer.skills) if peer.skills else ""


def _is_short(peer: PromptPeer, skills: str) -> bool:
    return (
        0 < len(peer.name) <= MAX_NAME
        and len(peer.description) <= MAX_DESCRIPTION
        and len(peer.skills) <= MAX_PEER_SKILLS
        and (len(skills) <= MAX_SKILL or max(map(len, peer.skills)) <= MAX_SKILL)
        and '"' not in peer.id
        and '"' not in peer.status
    )


def _utf8_size(text: str) -> int:
    return len(text.encode())


def _sanitize_peer(peer: PromptPeer) -> PromptPeer:
    id_ = "".join(each for each in peer.id[:128] if each in _ID_CHARACTERS)
    skills = [escape_fence(each, MAX_SKILL) for each in peer.skills[:MAX_PEER_SKILLS]]
    return PromptPeer(
        id=id_,
        name=escape_fence(peer.name, MAX_NAME) or id_ or "unnamed",
        status="".join(each for each in peer.status[:40] if each in _ID_CHARACTERS),
        description=escape_fence(peer.description, MAX_DESCRIPTION),
        skills=tuple(each for each in skills if each),
        is_child=peer.is_child,
    )


def escape_fence(text: str, max_length: int) -> str:
    """Sanitize an untrusted text into one line that can neither open nor close a fence."""
    return sanitize_line(text, max_length).replace("<", "\u2039").replace(">", "\u203a")  # control: peer-text-escaped


class PeerChunk:
    """An immutable run of consecutive peers; `digest` is computed on first use."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def digest(self) -> bytes:
        """Return a digest of the text."""
        return hashlib.sha256(self.text.encode()).digest()


class PeerBlock:
    """All peers in order, in the form that the token budget allows.

    `level`: how far they are shortened. `shown`: how many are included.
    """

    def __init__(self, peers: Iterable[PromptPeer], capacity: int) -> None:
        all_peers = list(peers)
        groups = [all_peers[start : start + _CLEAN_BATCH] for start in range(0, len(all_peers), _CLEAN_BATCH)]
        self._peers = [each for group in groups for each in clean_peers(group)]
        self._positions = {each.peer.id: position for position, each in enumerate(self._peers)}
        self._capacity = bytes_for_tokens(capacity)
        self._total_sizes = [
            sum([each.full_size for each in self._peers]),
            sum([each.no_skills_size for each in self._peers]),
            sum([each.names_size for each in self._peers]),
        ]
        self._choose_level()
        self._build_chunks()

    def __len__(self) -> int:
        return len(self._peers)

    @property
    def chunks(self) -> tuple[PeerChunk, ...]:
        """Return the included peers in chunks, to be joined by `SEPARATOR`."""
        return tuple(self._chunks)

    def update_peer(self, peer: PromptPeer) -> bool:
        """Update a peer; return False if it is not among these."""
        new = clean_peer(peer)
        position = self._positions.get(new.peer.id)
        if position is None:
            return False
        old, self._peers[position] = self._peers[position], new
        self._total_sizes[LEVEL_FULL] += new.full_size - old.full_size
        self._total_sizes[LEVEL_NO_SKILLS] += new.no_skills_size - old.no_skills_size
        self._total_sizes[LEVEL_NAMES] += new.names_size - old.names_size
        before = (self.level, self.included_count)
        if before[0] != LEVEL_SOME or old.names_size != new.names_size:
            self._choose_level()
        if before != (self.level, self.included_count):
            self._build_chunks()
        elif position < self.included_count:
            number = position // _CHUNK_PEERS
            self._chunks[number] = self._build_chunk(number)
        return True

    def _choose_level(self) -> None:
        """Set the least shortening that fits, the number of included peers, and the token estimate."""
        for level, size in enumerate(self._total_sizes):
            if size <= self._capacity:
                self.level, self.included_count, self.tokens = level, len(self._peers), estimate_tokens(size)
                return
        sums = list(accumulate([each.names_size for each in self._peers]))
        self.level, self.included_count = LEVEL_SOME, bisect_right(sums, max(0, self._capacity))
        self.tokens = estimate_tokens(sums[self.included_count - 1]) if self.included_count else 0

    def _build_chunks(self) -> None:
        self._chunks = [self._build_chunk(number) for number in range(-(-self.included_count // _CHUNK_PEERS))]

    def _build_chunk(self, number: int) -> PeerChunk:
        start = number * _CHUNK_PEERS
        chunk_peers = self._peers[start : min(start + _CHUNK_PEERS, self.included_count)]
        level = min(self.level, LEVEL_NAMES)
        return PeerChunk(SEPARATOR.join([each.text(level) for each in chunk_peers]))


# -- agent cards -------------------------------------------------------------------------------------------------------


def peer_from_row(row: Any, own_id: str) -> PromptPeer | None:
    """Read a peer from its row in the list of peers; None if the row is invalid. Its card may be any JSON."""
    if not isinstance(row, dict) or not _text(row.get("id")):
        return None
    description_skills = description_and_skills(row.get("agent_card"))
    return PromptPeer(
        id=_text(row["id"]),
        name=_text(row.get("name")),
        status=LIMITED_STATUS if row.get("limited_until") else _text(row.get("status")),
        description=description_skills[0] or _text(row.get("role")),
        skills=description_skills[1],
        is_child=row.get("parent_id") == own_id,
    )


def description_and_skills(card: Any) -> tuple[str, tuple[str, ...]]:
    """Return description and skills of an agent card."""
    if not isinstance(card, dict):
        return "", ()
    listed = card.get("skills")
    skills = [_skill_text(each) for each in listed[: 2 * MAX_PEER_SKILLS]] if isinstance(listed, list) else []
    return _text(card.get("description")), tuple(each for each in skills if each)


def _skill_text(skill: Any) -> str:
    if not isinstance(skill, dict):
        return _text(skill)
    name, description = _text(skill.get("name")) or _text(skill.get("id")), _text(skill.get("description"))
    return f"{name}: {description}" if name and description else name


def _text(value: Any) -> str:
    """Return the beginning of a text, or an empty one; more is never used."""
    return value[:2000] if isinstance(value, str) else ""
