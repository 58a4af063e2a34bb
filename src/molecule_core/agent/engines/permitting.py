"""Which tools a thread may use: those it was given (`tools`), as far as its `permissions` let it. Pure.

Permissions come with a thread, are kept by forks and children, and narrow what the agent's own configuration gives;
they never widen it. What is not understood in them ends the turn: it may be what somebody relies on. Above: driving.
Below: the patterns of approval rules.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.agent.engines.leave import ACTION, SPOKEN, fits
from molecule_core.agent.neutral import line
from molecule_core.wire.approvals import Rule

Patterns = Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=100)]
ORIGIN = "tools:"
"""How the origin of the note begins that tells a model which tools it has; their names follow."""


class BadPermissions(Exception):
    """The permissions of a thread are not understood; the text is one line."""


class Permissions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of tools, in which `*` is any text. `allow`: only these; left out: all. `deny`: not these, whatever is
    allowed. `ask`: these only with an approval, for each call."""

    allow: Patterns | None = None
    deny: Patterns = []
    ask: Patterns = []

    def within(self, names: Iterable[str]) -> list[str]:
        """Those that may be used."""
        return [each for each in names if (self.allow is None or _any(self.allow, each)) and not _any(self.deny, each)]

    @property
    def rules(self) -> list[Rule]:
        """What needs leave by them."""
        note = "the permissions of the thread say so"
        return [Rule(action=f"{ACTION}{_bare(each)}", note=note) for each in self.ask]


def permissions_of(told: dict[str, Any] | None) -> Permissions:
    """What a thread's permissions say. Raises BadPermissions."""
    try:
        return msgspec.convert(told or {}, Permissions)
    except msgspec.ValidationError as error:
        raise BadPermissions(
            f"the permissions of this thread are not understood ({line(str(error), 200)}); docs/agent-run.md has what "
            "they may say. Resume it with others"
        ) from None


def fewer(names: Sequence[str], whole: Sequence[str]) -> tuple[str, str] | None:
    """The origin and the text of the note for a thread that has fewer tools than its agent; None if it has all."""
    if set(names) == set(whole):
        return None
    shown = ", ".join(names) or "none"
    return f"{ORIGIN}{shown}"[:_MOST_ORIGIN], f"Of the tools that you have been told of, you have these here: {shown}."


_MOST_ORIGIN = 200


def _any(patterns: Sequence[str], name: str) -> bool:
    return any(fits(_bare(each), name) for each in patterns)


def _bare(pattern: str) -> str:
    return pattern.removeprefix(ACTION).removeprefix(SPOKEN)
