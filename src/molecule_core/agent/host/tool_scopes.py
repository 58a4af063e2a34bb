"""Asks the server whether a tool of a host may be used for the delegations that its agent works on.

The server cannot see tools of hosts. Called before such a tool runs, by bridges and by the relays of permissions; calls
`GET /workspaces/{id}/scope`.
"""

import logging
from typing import Any
from urllib.parse import quote

import msgspec

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.delegation_scope import ScopeResponse
from molecule_core.wire.schemas.runtimes import Runtime, tool_name

_log = logging.getLogger("molecule.agent")
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0
# 30 s: shorter than the shortest time after which a host runs a tool without an answer of its hook, which is 60 s.
_TASK_SECONDS = 30.0
# 3 s: work that is not known to be restricted is held up only shortly by a server that is away, and once in a while.
_OTHER_SECONDS, _PAUSE_SECONDS = 3.0, 30.0
_MAX_KNOWN = 1000
# Calls of the platform's own tools are held to scopes by the server itself.
_OWN_PREFIX = tool_name("", Runtime.CLAUDE_CODE)
_MAX_TOOL, _MAX_REASON = 200, 300
_UNKNOWN = "The server does not say whether the tool {tool} may be used for this task ({reason}). Try again later."


class ToolScopes:
    """Scopes of the delegations of one workspace, as far as they concern tools of its host."""

    def __init__(self, workspace_id: str, requester: Requester, *, clock: Clock, randomness: Randomness) -> None:
        self._path = f"/workspaces/{quote(workspace_id, safe='')}/scope"
        self._requester = requester
        self._clock = clock
        self._randomness = randomness
        self._unrestricted: dict[str, None] = {}
        """Delegations without a scope, which never get one."""
        self._paused_until = 0.0

    async def find_denial(self, tool: str, delegation_id: str = "") -> str:
        """Return why a tool may not be used, for the model; empty if it may.

        `delegation_id`: the delegation that is worked on; empty: none is known, and all that the workspace works on
        count. A tool of a delegation is denied if the server does not answer in time; other tools are not, since a
        scope of other work is the exception."""
        if delegation_id in self._unrestricted or tool.startswith(_OWN_PREFIX):
            return ""
        name = sanitize_line(tool, _MAX_TOOL)
        if not delegation_id and self._clock.monotonic() < self._paused_until:
            return ""
        found: list[ScopeResponse | str] = []
        await self._clock.wait(
            self._ask(name, delegation_id, found), _TASK_SECONDS if delegation_id else _OTHER_SECONDS
        )
        answer = found[0] if found else "it does not answer"
        if isinstance(answer, str) and not delegation_id:
            self._paused_until = self._clock.monotonic() + _PAUSE_SECONDS
            _log.info("scopes of delegations are not known now: %s", answer)
            return ""
        if isinstance(answer, str):
            return _UNKNOWN.format(tool=name, reason=answer)
        if delegation_id and answer.allowed and answer.may is None:
            self._remember_unrestricted(delegation_id)
        return "" if answer.allowed else answer.reason

    def _remember_unrestricted(self, delegation_id: str) -> None:
        self._unrestricted[delegation_id] = None
        while len(self._unrestricted) > _MAX_KNOWN:
            del self._unrestricted[next(iter(self._unrestricted))]

    async def _ask(self, tool: str, delegation_id: str, found: list[ScopeResponse | str]) -> None:
        """Ask until the server answers; add its answer to `found`, or why it rejects the question."""
        query: dict[str, Any] = {"tool": tool, "delegation_id": delegation_id or None}
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while True:
            try:
                response = await self._requester.call("GET", self._path, query=query)
                found.append(msgspec.convert(response, ScopeResponse))
                return
            except (NoAnswerError, msgspec.ValidationError):
                pass
            except (ApiError, ToolError) as error:
                if not error.is_transient:
                    found.append(sanitize_line(str(error), _MAX_REASON))
                    return
            await sleep(self._clock, back_off.next_delay())
