"""Keeps an agent's prompt current: from its own files, and from the events of the workspaces that it can reach.

A prompt is never changed: a new one takes its place, so a turn that runs keeps the one it began with. A stream that
breaks is opened again, and all is gathered anew then: what was missed cannot be known.

Above: the command line. Below: gathering, watching, prompt.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.gathering import Failed, Gatherer
from molecule_core.agent.home import CONFIG, Home, HomeFile, read_home
from molecule_core.agent.prompt import Assembly, Inputs, Prompt
from molecule_core.agent.prompt_peers import Peer, carded
from molecule_core.agent.skills import FOLDER
from molecule_core.agent.waiting import pause
from molecule_core.agent.watching import changes
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.ground.clock import Clock, others_first
from molecule_core.ground.ids import Randomness
from molecule_core.wire.prompts import DiffSection, Trigger, diff

_log = logging.getLogger("molecule.agent")
# Several changes come together (a team that starts, an editor that saves): so long is waited for the next, and at most.
_QUIET_SECONDS, _LONGEST_SECONDS = 0.2, 2.0
_RETRY_SECONDS, _RETRY_MOST_SECONDS = 1.0, 60.0
_MOST_DIFF = 2000
# What is told of a peer alone, and how it stands then.
_STANDINGS = {
    "WORKSPACE_ONLINE": "online",
    "WORKSPACE_OFFLINE": "offline",
    "WORKSPACE_DEGRADED": "degraded",
    "WORKSPACE_PAUSED": "paused",
    "WORKSPACE_HIBERNATED": "hibernated",
    "WORKSPACE_AWAITING_AGENT": "awaiting_agent",
}
_CARD = "AGENT_CARD_UPDATED"
_KINDS = ("start", "file", "event", "gap", "reconnect")
EVENTS = frozenset(
    (
        _CARD,
        *_STANDINGS,
        "WORKSPACE_PROVISIONING",
        "WORKSPACE_UPDATED",
        "WORKSPACE_EXPANDED",
        "WORKSPACE_COLLAPSED",
        "WORKSPACE_REMOVED",
        "WORKSPACE_MOVED",
        "SHARED_CONTEXT_UPDATED",
    )
)
"""Events that may change a prompt."""


class Rebuilt(Struct, frozen=True):
    """A new prompt, why, and what differs from the one before; nothing for the first."""

    prompt: Prompt
    trigger: Trigger
    diff: list[DiffSection]


class _Cause(Struct, frozen=True):
    """Something happened. `frame`: the event, if it is one; `files`: the agent's own files are to be read again."""

    trigger: Trigger
    frame: dict[str, Any] | None = None
    files: bool = False


class Rebuilder:
    """One agent's prompt, as it is now. `told` is called with each new one, and again with the same one after it raised
    Failed, unless that was final; `warned` with what went wrong beside."""

    def __init__(
        self,
        gatherer: Gatherer,
        folder: Path,
        told: Callable[[Rebuilt], Awaitable[None]],
        *,
        events: Callable[[], AsyncIterator[dict[str, Any]]],
        warned: Callable[[str], None],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self.prompt: Prompt | None = None
        self._gatherer = gatherer
        self._folder = folder.resolve()
        self._told = told
        self._events = events
        self._warned = warned
        self._clock = clock
        self._listening = BackOff(_RETRY_SECONDS, _RETRY_MOST_SECONDS, randomness)
        self._watching = BackOff(_RETRY_SECONDS, _RETRY_MOST_SECONDS, randomness)
        self._asking = BackOff(_RETRY_SECONDS, _RETRY_MOST_SECONDS, randomness)
        self._again: float | None = None
        self._causes: list[_Cause] = []
        self._some = asyncio.Event()
        self._home = Home()
        self._paths: frozenset[str] = frozenset()
        self._assembly: Assembly | None = None
        self._peers: dict[str, Peer] | None = None
        self._said: tuple[str, tuple[str, ...]] = ("", ())
        self._untold: Rebuilt | None = None
        self._unshared = True
        self._unknown = False
        self._refused: tuple[HomeFile, ...] | None = None
        self._share_fault: tuple[str, ...] = ()
        self._blind: tuple[str, ...] = ()

    async def run(self) -> None:
        """Builds, and builds again whenever something has changed, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._listen())
            await others_first()  # what changes from here on is seen; only then is it read what there is
            self._note(_Cause(Trigger("start"), files=True))
            while True:
                await self._rebuild(await self._next())

    # -- what happens --------------------------------------------------------------------------------------------------

    def _note(self, cause: _Cause) -> None:
        self._causes.append(cause)
        self._some.set()

    async def _next(self) -> list[_Cause]:
        """What has happened; waits for the first, then until it is quiet, but not for long. What the server did not
        say is asked again after a while, whether or not something happens."""
        if self._again is None:
            await self._some.wait()
        elif not await self._clock.wait(self._some.wait(), self._again - self._clock.monotonic()):
            return [_Cause(Trigger("gap", "asked again"))]
        until = self._clock.monotonic() + _LONGEST_SECONDS
        if self._assembly is not None:  # the first is needed at once
            while self._clock.monotonic() < until:
                self._some.clear()
                if not await self._clock.wait(self._some.wait(), _QUIET_SECONDS):
                    break
        causes, self._causes = self._causes, []
        self._some.clear()
        return causes

    async def _watch(self) -> None:
        seen: tuple[str, ...] = ()
        while True:
            began = self._clock.monotonic()
            try:
                async for paths in changes(self._folder, self._concerns):
                    self._note(_Cause(Trigger("file", ", ".join(paths)[:500]), files=True))
            except OSError as error:
                self._blind = (f"changes of files in {self._folder} are not seen: {error.strerror or error}",)
            if self._blind and self._blind != seen:
                self._warned(self._blind[0])
                self._note(_Cause(Trigger("file"), files=True))
            if self._clock.monotonic() - began > _RETRY_MOST_SECONDS:
                self._watching.reset()
            await pause(self._clock, self._watching.next())
            # Whatever happened meanwhile is found by reading; if it cannot be watched now either, that is told again.
            seen, self._blind = self._blind, ()
            self._note(_Cause(Trigger("file", "watched again"), files=True))

    def _concerns(self, path: str) -> bool:
        return path in self._paths or path == FOLDER or path.startswith(f"{FOLDER}/")

    async def _listen(self) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                async for frame in self._events():
                    self._hear(frame)
            except (ApiError, NoAnswer, msgspec.DecodeError) as error:
                self._warned(f"events of others are not heard: {error}")
            # A server that greets and ends the stream at once is not one that works.
            if self._clock.monotonic() - began > _RETRY_MOST_SECONDS:
                self._listening.reset()
            await pause(self._clock, self._listening.next())

    def _hear(self, frame: dict[str, Any]) -> None:
        name = str(frame.get("event", ""))
        if name in EVENTS:
            self._note(_Cause(Trigger("event", f"{name} {frame.get('workspace_id', '')}"[:500]), frame))
        elif frame.get("type") == "hello":
            self._note(_Cause(Trigger("reconnect")))
        elif frame.get("type") == "snapshot_required":
            self._note(_Cause(Trigger("gap", str(frame.get("reason", ""))[:500])))

    # -- what follows --------------------------------------------------------------------------------------------------

    async def _rebuild(self, causes: list[_Cause]) -> None:
        # What failed is tried again in its own time: events, however many, neither hasten it nor put it off.
        due = self._again is None or self._clock.monotonic() >= self._again
        read = any(each.files for each in causes)
        if read:
            self._read_home()
        if self._unshared and (due or read):
            await self._share()
        assembly = self._assembly
        again = due and self._unknown
        if assembly is None or again or not all(self._applies(assembly, each) for each in causes):
            inputs = await self._gatherer.gather(self._home)
            assembly = self._begin(inputs)
            self._unknown = bool(inputs.warnings)
        new = assembly.prompt((*self._share_fault, *self._blind))
        said = (new.hash, new.warnings)
        if changed := said != self._said:
            self._said = said
            self._untold = self._renewed(new, causes)
        if changed or due:
            await self._tell()
        self._ask_again(due=due)

    def _renewed(self, new: Prompt, causes: list[_Cause]) -> Rebuilt:
        old = self.prompt
        changed = [] if old is None else diff(old.sections, new.sections, _MOST_DIFF)
        self.prompt = new
        # Of several reasons the one that says most.
        trigger = min((each.trigger for each in causes), key=lambda each: _KINDS.index(each.kind))
        return Rebuilt(new, trigger, changed)

    async def _tell(self) -> None:
        if self._untold is None:
            return
        try:
            await self._told(self._untold)
        except Failed as error:
            self._warned(f"the server does not know this prompt: {error}")
            if not error.final:
                return
        self._untold = None

    def _ask_again(self, *, due: bool) -> None:
        if not (self._unshared or self._unknown or self._untold is not None):
            self._asking.reset()
            self._again = None
        elif due:
            self._again = self._clock.monotonic() + self._asking.next()

    def _read_home(self) -> None:
        self._home = home = read_home(self._folder)
        named = {CONFIG, *home.paths}
        # Who puts another folder in the place of one is told of by the folder alone.
        above = {str(each) for path in named for each in PurePosixPath(path).parents if each.name}
        self._paths = frozenset(named | above)
        self._unshared = home.shared is not None and home.shared != self._refused

    async def _share(self) -> None:
        try:
            await self._gatherer.share(self._home)
        except Failed as error:
            self._share_fault = (f"files are not shared with children: {error}",)
            self._warned(self._share_fault[0])
            self._refused = self._home.shared if error.final else None
            self._unshared = not error.final
        else:
            self._share_fault, self._refused, self._unshared = (), None, False

    def _begin(self, inputs: Inputs) -> Assembly:
        if inputs.peers is None and self._peers is not None:  # who was there is better than nobody
            inputs = msgspec.structs.replace(inputs, peers=tuple(self._peers.values()))
        if inputs.peers is not None:
            self._peers = {each.id: each for each in inputs.peers}
        self._assembly = Assembly(inputs)
        return self._assembly

    def _applies(self, assembly: Assembly, cause: _Cause) -> bool:
        """Whether what happened concerns one peer alone and is in the prompt now. Else all is gathered anew."""
        frame = cause.frame
        if cause.files or frame is None:
            return False
        name, id_ = frame.get("event"), str(frame.get("workspace_id", ""))
        if name != _CARD and name not in _STANDINGS:
            return False
        if id_ == self._gatherer.workspace_id:  # a prompt does not say how its own agent stands
            return True
        peers, payload = self._peers or {}, frame.get("payload")
        if (peer := peers.get(id_)) is None or not isinstance(payload, dict):
            return False
        peer = msgspec.structs.replace(peer, status=_STANDINGS.get(str(name), peer.status))
        card = payload.get("agent_card")
        if card is not None:
            description, skills = carded(card)
            if not description:  # its role stands there then, which only its row tells
                return False
            peer = msgspec.structs.replace(peer, description=description, skills=skills)
        peers[id_] = peer
        return assembly.put(peer)
