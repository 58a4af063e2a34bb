"""What a host asks its person to permit, as it tells a channel: asked for on the platform too, as an approval. Who
decides there answers the host; whoever is first counts, the person at the host or the platform.

Nothing is sent to the host but a decision: where the server cannot be reached, the host's own dialog stays, and the log
says so. Above: engine, main. Below: neutral, the walks about approvals.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.neutral import line
from molecule_core.agent.waiting import cancelled, pause
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Randomness
from molecule_core.wire import approving
from molecule_core.wire.speaks import Speaks
from molecule_core.wire.toolspec import ToolError
from molecule_core.wire.verbs import key_headers

CAPABILITY = "claude/channel/permission"
METHOD = "notifications/claude/channel/permission_request"
ANSWER = "notifications/claude/channel/permission"
ACTION = "permission:"
"""How the action of such an approval begins; the name of the host's tool follows."""
ALLOW, DENY = "allow", "deny"
_MOST_KEPT = 100
_SLICE_SECONDS = 20
# By what the server says that an approval allows nothing, or nothing more.
_ALLOWS_NOTHING = ("not_approved", "approval_changed", "approval_used")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_log = logging.getLogger("molecule.agent")
Notify = Callable[[str, dict[str, Any]], Awaitable[None]]


class PermissionRequest(Struct, frozen=True):
    """A host's question. All of it is text of the host and of the model in it."""

    request_id: str
    tool_name: str
    description: str
    input_preview: str


class Permissions:
    """The latest questions, oldest first. `relays`: whether somebody asks on the platform too."""

    def __init__(self, *, relays: bool = True) -> None:
        self._relays = relays
        self._kept: deque[PermissionRequest] = deque(maxlen=_MOST_KEPT)
        self._new: asyncio.Queue[PermissionRequest] = asyncio.Queue(_MOST_KEPT)

    @property
    def kept(self) -> tuple[PermissionRequest, ...]:
        """What was asked and not forgotten yet."""
        return tuple(self._kept)

    def take(self, params: dict[str, Any]) -> PermissionRequest | None:
        """Keeps a question and tells it in the log; None if it is none. Never makes the host's next line wait."""
        asked = PermissionRequest(*(_text(params.get(name)) for name in PermissionRequest.__struct_fields__))
        if not asked.request_id:
            return None
        self._kept.append(asked)
        _log.info("the host asks for permission %s: %s (%s)", asked.request_id, asked.tool_name, asked.description)
        if not self._relays:
            _log.warning("permission %s is not relayed: no workspace is set for it", asked.request_id)
        elif self._new.full():
            _log.warning("permission %s is not relayed: too many wait; the host's own dialog stays", asked.request_id)
        else:
            self._new.put_nowait(asked)
        return asked

    async def coming(self) -> AsyncIterator[PermissionRequest]:
        """Each question once, as it comes."""
        while True:
            yield await self._new.get()


class Relay:
    """Asks for approvals in the name of one workspace, and tells its host what comes of them. `life`: a word that tells
    this life of the process from others, whose hosts may have used the same ids."""

    def __init__(
        self,
        workspace_id: str,
        speaks: Speaks,
        notify: Notify,
        *,
        life: str,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._own = workspace_id
        self._speaks = speaks
        self._notify = notify
        self._life = life
        self._clock = clock
        self._randomness = randomness
        self._open: dict[str, asyncio.Task[None]] = {}
        self._asked: dict[str, approving.Standing] = {}

    async def run(self, permissions: Permissions) -> None:
        """Relays until it is cancelled; each question for itself, so that none waits for another's decision."""
        async for asked in permissions.coming():
            if asked.request_id in self._open:  # the host asks once more: it is the same question
                continue
            task = self._open[asked.request_id] = asyncio.create_task(self._relay(asked))
            task.add_done_callback(partial(self._done, asked.request_id))

    def _done(self, request_id: str, task: "asyncio.Task[None]") -> None:
        self._open.pop(request_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("permission %s could not be relayed", request_id, exc_info=error)

    async def stop(self, seconds: float) -> None:
        """Takes back what nobody has decided: the host that asked ends. Gives up after so many seconds."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        left = [asyncio.create_task(self._withdraw(item)) for item in self._asked.values()]
        if left:
            await asyncio.wait(left, timeout=seconds)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _withdraw(self, item: approving.Standing) -> None:
        path = approving.path_of(self._own, item.approval_id, "withdraw")
        try:
            await self._speaks.call("POST", path, body={"note": "the host that asked has ended"})
        except ToolError as error:
            _log.info("approval %s stays open until it expires: %s", item.approval_id, line(error.text, 300))

    # -- one question --------------------------------------------------------------------------------------------------

    async def _relay(self, asked: PermissionRequest) -> None:
        try:
            item = await self._ended(asked, await self._asking(asked))
            behavior = await self._behavior(asked, item)
        except ToolError as error:
            _log.warning(
                "permission %s is not decided on the platform, the host's own dialog stays: %s",
                asked.request_id,
                line(error.text, 300),
            )
            return
        finally:
            if not cancelled():  # else it is taken back at the end
                self._asked.pop(asked.request_id, None)
        _log.info("permission %s: %s (approval %s)", asked.request_id, behavior or item.status, item.approval_id)
        if behavior:
            await self._notify(ANSWER, {"request_id": asked.request_id, "behavior": behavior})

    async def _asking(self, asked: PermissionRequest) -> approving.Standing:
        """The approval of a question, asked for once, however often it is tried. Raises ToolError."""
        body = {
            "action": f"{ACTION}{asked.tool_name or 'unknown'}",
            "reason": asked.description,
            "details": {"tool": asked.tool_name, "input_preview": asked.input_preview},
            "source": "relay",
        }
        path = approving.path_of(self._own)
        item = approving.item_of(await self._speaks.call("POST", path, body=body, headers=self._key(asked)))
        self._asked[asked.request_id] = item
        return item

    async def _ended(self, asked: PermissionRequest, item: approving.Standing) -> approving.Standing:
        """How it ends. A server that is away for a while is waited for. Raises ToolError."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while approving.is_open(item):
            try:
                item = await approving.waited(self._speaks, self._own, item, _SLICE_SECONDS, self._clock)
                back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
            except ToolError as error:
                if not error.passes:
                    raise
                _log.warning(
                    "permission %s: the decision cannot be asked for now, the host's own dialog stays: %s",
                    asked.request_id,
                    line(error.text, 300),
                )
                await pause(self._clock, back_off.next())
        return item

    def _key(self, asked: PermissionRequest) -> dict[str, str]:
        return key_headers(f"relay:{self._life}:{asked.request_id}")

    async def _behavior(self, asked: PermissionRequest, item: approving.Standing) -> str:
        """What the host is told; empty: nothing. What was approved is used up first, and a host cannot do anything else
        than it has asked for. Raises ToolError if that is not known."""
        if item.status != "approved":
            return DENY if item.status in ("denied", "expired") else ""
        if item.edited is not None:
            _log.warning("approval %s was given for something else than the host asked for", item.approval_id)
            return DENY
        path = approving.path_of(self._own, item.approval_id, "use")
        back_off, was_tried = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness), False
        while True:
            try:
                used = {"action_hash": item.action_hash}
                await self._speaks.call("POST", path, body=used, headers=self._key(asked))
                return ALLOW
            except ToolError as error:
                _log.warning("approval %s cannot be used: %s", item.approval_id, line(error.text, 300))
                # What was tried before may have used it up; no other refusal is a word on what may be done.
                if error.code in _ALLOWS_NOTHING and not was_tried:
                    return DENY
                if not error.passes:
                    raise
            was_tried = True
            await pause(self._clock, back_off.next())


def _text(value: object) -> str:
    return line(value, 1000) if isinstance(value, str) else ""
