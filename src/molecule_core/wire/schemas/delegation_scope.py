"""What a delegation may do: the member `may` of delegations.

A scope only narrows. A delegation below another one has at most the scope of that one: `narrow` intersects them member
by member. A further member, such as a budget, is intersected there too. Shared by the server, which enforces it, and by
the agent's side, which asks before it runs tools of its own.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

_MAX_ENTRIES = 100
ToolPattern = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\s*]*\*?$")]
WorkspaceId = Annotated[str, Meta(min_length=1, max_length=128)]
_TOOL_PREFIX = "tool:"
_ANY_TEXT = "*"


class DelegationScope(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a delegation may do at most. A missing member restricts nothing.

    `tools`: names of tools, of the server and of the agent itself; `*` at the end of a name is any text. `peers`: ids
    of the workspaces that it may write or delegate to, beside its delegator. `depth`: the levels of delegations below
    it; 0: it may not delegate. `approvals`: whether it may request approvals."""

    tools: Annotated[list[ToolPattern], Meta(max_length=_MAX_ENTRIES)] | None = None
    peers: Annotated[list[WorkspaceId], Meta(max_length=_MAX_ENTRIES)] | None = None
    depth: Annotated[int, Meta(ge=0, le=1000)] | None = None
    approvals: bool = True

    @property
    def is_unrestricted(self) -> bool:
        """Return whether it restricts nothing."""
        return self == UNRESTRICTED

    def allows_tool(self, name: str) -> bool:
        """Return whether a tool of this name may be used."""
        return self.tools is None or any(pattern_covers(each, name) for each in self.tools)

    def allows_peer(self, workspace_id: str) -> bool:
        """Return whether a workspace may be written or delegated to."""
        return self.peers is None or workspace_id in self.peers

    def below(self) -> "DelegationScope":
        """Return the widest scope of a delegation below one with this scope."""
        if self.depth is None:
            return self
        return DelegationScope(
            tools=self.tools, peers=self.peers, depth=max(0, self.depth - 1), approvals=self.approvals
        )

    def narrow(self, other: "DelegationScope") -> "DelegationScope":
        """Return what both scopes allow."""
        return DelegationScope(
            tools=_common_patterns(self.tools, other.tools),
            peers=_common_peers(self.peers, other.peers),
            depth=_smaller(self.depth, other.depth),
            approvals=self.approvals and other.approvals,
        )

    def excess_of(self, other: "DelegationScope") -> list[str]:
        """Return what another scope asks for beyond this one, in words.

        A member that it leaves out asks for nothing."""
        found = []
        if self.tools is not None and other.tools is not None:
            found += [f"the tool {each}" for each in other.tools if not self.allows_tool(each)]
        if self.peers is not None and other.peers is not None:
            found += [f"the peer {each}" for each in other.peers if not self.allows_peer(each)]
        if self.depth is not None and other.depth is not None and other.depth > self.depth:
            found.append(f"{other.depth} further levels of delegations (at most {self.depth})")
        return found


UNRESTRICTED = DelegationScope()


def pattern_covers(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name, or all that another pattern matches."""
    pattern, name = pattern.removeprefix(_TOOL_PREFIX), name.removeprefix(_TOOL_PREFIX)
    if not pattern.endswith(_ANY_TEXT):
        return pattern == name
    return name.startswith(pattern[:-1])


def _common_patterns(one: Sequence[str] | None, other: Sequence[str] | None) -> list[str] | None:
    """Return the common patterns: since `*` is only at the end, of two that have a common name one covers the other."""
    if one is None or other is None:
        known = other if one is None else one
        return None if known is None else list(known)
    found = [each for each in one if any(pattern_covers(wider, each) for wider in other)]
    found += [each for each in other if each not in found and any(pattern_covers(wider, each) for wider in one)]
    return found


def _common_peers(one: Sequence[str] | None, other: Sequence[str] | None) -> list[str] | None:
    if one is None or other is None:
        known = other if one is None else one
        return None if known is None else list(known)
    return [each for each in one if each in other]


def _smaller(one: int | None, other: int | None) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return min(known, default=None)


class ScopeResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a workspace may do for the delegations that it works on.

    `delegations`: those whose scopes apply; `may`: the intersection of their scopes, missing if nothing restricts it.
    `allowed`: whether the tool of the request may be used; `reason`: why not."""

    delegations: list[str] = []
    may: DelegationScope | None = None
    allowed: bool = True
    reason: str = ""
