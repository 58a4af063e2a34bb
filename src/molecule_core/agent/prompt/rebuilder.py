"""Keeps an agent's prompt current, from its own files and the events of reachable workspaces.

A prompt is never changed but replaced, so a running turn keeps the one it started with. When an event stream breaks, it
is reopened and all inputs are loaded again, since missed events are unknown.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.prompt.assembly import Prompt, PromptAssembler, PromptInputs
from molecule_core.agent.prompt.file_watch import watch_files
from molecule_core.agent.prompt.home import CONFIG_FILE, Home, HomeFile, read_home
from molecule_core.agent.prompt.loader import PromptLoader, PromptServerError
from molecule_core.agent.prompt.peers import LIMITED_STATUS, PromptPeer, description_and_skills
from molecule_core.agent.prompt.skills import SKILLS_FOLDER
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock, yield_to_others
from molecule_core.common.ids import Randomness
from molecule_core.wire.schemas.prompts import BuildTrigger, DiffSection, diff_sections

_log = logging.getLogger("molecule.agent")
# Changes come in bursts (a team starts, an editor saves): wait this long for the next one, and at most this long.
_DEBOUNCE_SECONDS, _MAX_DEBOUNCE_SECONDS = 0.2, 2.0
_RETRY_SECONDS, _RETRY_MAX_SECONDS = 1.0, 60.0
_MAX_DIFF = 2000
# Events about a single peer, and the peer's status after each.
_STATUS_BY_EVENT = {
    "WORKSPACE_ONLINE": "online",
    "WORKSPACE_OFFLINE": "offline",
    "WORKSPACE_DEGRADED": "degraded",
    "WORKSPACE_PAUSED": "paused",
    "WORKSPACE_HIBERNATED": "hibernated",
    "WORKSPACE_AWAITING_AGENT": "awaiting_agent",
}
_CARD = "AGENT_CARD_UPDATED"
_TRIGGER_ORDER = ("start", "file", "event", "gap", "reconnect")
PROMPT_EVENTS = frozenset(
    (
        _CARD,
        *_STATUS_BY_EVENT,
        "WORKSPACE_LIMITED",
        "WORKSPACE_LIMIT_ENDED",
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


class PromptUpdate(Struct, frozen=True):
    """A new prompt, its trigger, and the difference to the one before; empty for the first."""

    prompt: Prompt
    trigger: BuildTrigger
    diff: list[DiffSection]


class _RebuildCause(Struct, frozen=True):
    """A reason to rebuild. `frame`: the event, if it is one. `files`: the agent's own files must be read again."""

    trigger: BuildTrigger
    frame: dict[str, Any] | None = None
    files: bool = False


class PromptRebuilder:
    """The current prompt of an agent.

    `on_update` is called with each new prompt, and again with the same one after it raised PromptServerError, unless
    that was final. `on_warning` is called with further problems. `tools`: the tools that the agent is offered, if they
    are known; the prompt documents no others.
    """

    def __init__(
        self,
        loader: PromptLoader,
        folder: Path,
        on_update: Callable[[PromptUpdate], Awaitable[None]],
        *,
        events: Callable[[], AsyncIterator[dict[str, Any]]],
        on_warning: Callable[[str], None],
        clock: Clock,
        randomness: Randomness,
        tools: tuple[str, ...] | None = None,
    ) -> None:
        self.prompt: Prompt | None = None
        self._tools = tools
        self._loader = loader
        self._folder = folder.resolve()
        self._on_update = on_update
        self._events = events
        self._on_warning = on_warning
        self._clock = clock
        self._listen_back_off = BackOff(_RETRY_SECONDS, _RETRY_MAX_SECONDS, randomness)
        self._watch_back_off = BackOff(_RETRY_SECONDS, _RETRY_MAX_SECONDS, randomness)
        self._retry_back_off = BackOff(_RETRY_SECONDS, _RETRY_MAX_SECONDS, randomness)
        self._retry_at: float | None = None
        self._causes: list[_RebuildCause] = []
        self._has_causes = asyncio.Event()
        self._home = Home()
        self._paths: frozenset[str] = frozenset()
        self._assembler: PromptAssembler | None = None
        self._peers: dict[str, PromptPeer] | None = None
        self._last_built: tuple[str, tuple[str, ...]] = ("", ())
        self._unreported: PromptUpdate | None = None
        self._is_share_pending = True
        self._is_incomplete = False
        self._rejected_files: tuple[HomeFile, ...] | None = None
        self._share_warnings: tuple[str, ...] = ()
        self._watch_warnings: tuple[str, ...] = ()

    async def run(self) -> None:
        """Build the prompt, and rebuild it after each change, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._listen())
            await yield_to_others()  # read the inputs only once changes are being watched
            self._add_cause(_RebuildCause(BuildTrigger("start"), files=True))
            while True:
                await self._rebuild(await self._next_causes())

    # -- changes
    # -----------------------------------------------------------------------------------------------------------

    def _add_cause(self, cause: _RebuildCause) -> None:
        self._causes.append(cause)
        self._has_causes.set()

    async def _next_causes(self) -> list[_RebuildCause]:
        """Return the changes to handle: wait for the first, then until they pause, within a limit.

        Failed requests are repeated after a delay, even without a change.
        """
        if self._retry_at is None:
            await self._has_causes.wait()
        elif not await self._clock.wait(self._has_causes.wait(), self._retry_at - self._clock.monotonic()):
            return [_RebuildCause(BuildTrigger("gap", "request repeated"))]
        until = self._clock.monotonic() + _MAX_DEBOUNCE_SECONDS
        if self._assembler is not None:  # the first prompt is needed at once
            while self._clock.monotonic() < until:
                self._has_causes.clear()
                if not await self._clock.wait(self._has_causes.wait(), _DEBOUNCE_SECONDS):
                    break
        causes, self._causes = self._causes, []
        self._has_causes.clear()
        return causes

    async def _watch(self) -> None:
        reported: tuple[str, ...] = ()
        while True:
            started = self._clock.monotonic()
            try:
                async for paths in watch_files(self._folder, self._is_relevant):
                    self._add_cause(_RebuildCause(BuildTrigger("file", ", ".join(paths)[:500]), files=True))
            except OSError as error:
                self._watch_warnings = (
                    f"changes of files in {self._folder} cannot be detected: {error.strerror or error}",
                )
            if self._watch_warnings and self._watch_warnings != reported:
                self._on_warning(self._watch_warnings[0])
                self._add_cause(_RebuildCause(BuildTrigger("file"), files=True))
            if self._clock.monotonic() - started > _RETRY_MAX_SECONDS:
                self._watch_back_off.reset()
            await sleep(self._clock, self._watch_back_off.next_delay())
            # Changes in between are found by reading the files; a watch that fails again is reported again.
            reported, self._watch_warnings = self._watch_warnings, ()
            self._add_cause(_RebuildCause(BuildTrigger("file", "file watch restarted"), files=True))

    def _is_relevant(self, path: str) -> bool:
        return path in self._paths or path == SKILLS_FOLDER or path.startswith(f"{SKILLS_FOLDER}/")

    async def _listen(self) -> None:
        while True:
            started = self._clock.monotonic()
            try:
                async for frame in self._events():
                    self._handle_frame(frame)
            except (ApiError, NoAnswerError, msgspec.DecodeError) as error:
                self._on_warning(f"events of other workspaces cannot be received: {error}")
            # A server that only sends `hello` and closes the stream does not reset the back-off.
            if self._clock.monotonic() - started > _RETRY_MAX_SECONDS:
                self._listen_back_off.reset()
            await sleep(self._clock, self._listen_back_off.next_delay())

    def _handle_frame(self, frame: dict[str, Any]) -> None:
        name = str(frame.get("event", ""))
        if name in PROMPT_EVENTS:
            self._add_cause(
                _RebuildCause(BuildTrigger("event", f"{name} {frame.get('workspace_id', '')}"[:500]), frame)
            )
        elif frame.get("type") == "hello":
            self._add_cause(_RebuildCause(BuildTrigger("reconnect")))
        elif frame.get("type") == "snapshot_required":
            self._add_cause(_RebuildCause(BuildTrigger("gap", str(frame.get("reason", ""))[:500])))

    # -- rebuilding
    # --------------------------------------------------------------------------------------------------------

    async def _rebuild(self, causes: list[_RebuildCause]) -> None:
        # Failed requests have their own schedule: events neither hasten nor delay it.
        due = self._retry_at is None or self._clock.monotonic() >= self._retry_at
        files_changed = any(each.files for each in causes)
        if files_changed:
            self._read_home()
        if self._is_share_pending and (due or files_changed):
            await self._upload_shared()
        assembler = self._assembler
        is_retry = due and self._is_incomplete
        if assembler is None or is_retry or not all(self._apply_event(assembler, each) for each in causes):
            inputs = await self._loader.load_inputs(self._home)
            assembler = self._start_assembler(inputs)
            self._is_incomplete = bool(inputs.warnings)
        new = assembler.build_prompt((*self._share_warnings, *self._watch_warnings))
        built = (new.hash, new.warnings)
        if changed := built != self._last_built:
            self._last_built = built
            self._unreported = self._make_update(new, causes)
        if changed or due:
            await self._report_update()
        self._schedule_retry(due=due)

    def _make_update(self, new: Prompt, causes: list[_RebuildCause]) -> PromptUpdate:
        old = self.prompt
        changed = [] if old is None else diff_sections(old.sections, new.sections, _MAX_DIFF)
        self.prompt = new
        # Of several triggers, report the most informative one.
        trigger = min((each.trigger for each in causes), key=lambda each: _TRIGGER_ORDER.index(each.kind))
        return PromptUpdate(new, trigger, changed)

    async def _report_update(self) -> None:
        if self._unreported is None:
            return
        try:
            await self._on_update(self._unreported)
        except PromptServerError as error:
            self._on_warning(f"this prompt could not be reported to the server: {error}")
            if not error.is_final:
                return
        self._unreported = None

    def _schedule_retry(self, *, due: bool) -> None:
        if not (self._is_share_pending or self._is_incomplete or self._unreported is not None):
            self._retry_back_off.reset()
            self._retry_at = None
        elif due:
            self._retry_at = self._clock.monotonic() + self._retry_back_off.next_delay()

    def _read_home(self) -> None:
        home = read_home(self._folder)
        self._home = home = home if self._tools is None else msgspec.structs.replace(home, tool_names=self._tools)
        config_paths = {CONFIG_FILE, *home.paths}
        # When a folder is replaced, only the folder itself is reported as changed.
        parents = {str(each) for path in config_paths for each in PurePosixPath(path).parents if each.name}
        self._paths = frozenset(config_paths | parents)
        self._is_share_pending = home.shared is not None and home.shared != self._rejected_files

    async def _upload_shared(self) -> None:
        try:
            await self._loader.upload_shared_files(self._home)
        except PromptServerError as error:
            self._share_warnings = (f"files could not be shared with children: {error}",)
            self._on_warning(self._share_warnings[0])
            self._rejected_files = self._home.shared if error.is_final else None
            self._is_share_pending = not error.is_final
        else:
            self._share_warnings, self._rejected_files, self._is_share_pending = (), None, False

    def _start_assembler(self, inputs: PromptInputs) -> PromptAssembler:
        if inputs.peers is None and self._peers is not None:  # the last known peers are better than none
            inputs = msgspec.structs.replace(inputs, peers=tuple(self._peers.values()))
        if inputs.peers is not None:
            self._peers = {each.id: each for each in inputs.peers}
        self._assembler = PromptAssembler(inputs)
        return self._assembler

    def _apply_event(self, assembler: PromptAssembler, cause: _RebuildCause) -> bool:
        """Apply an event about a single peer; return False if all inputs must be loaded again."""
        frame = cause.frame
        if cause.files or frame is None:
            return False
        name, id_ = frame.get("event"), str(frame.get("workspace_id", ""))
        if name != _CARD and name not in _STATUS_BY_EVENT:
            return False
        if id_ == self._loader.workspace_id:  # a prompt does not contain its own agent's status
            return True
        peers, payload = self._peers or {}, frame.get("payload")
        if (peer := peers.get(id_)) is None or not isinstance(payload, dict):
            return False
        if peer.status != LIMITED_STATUS:  # until its limit ends
            peer = msgspec.structs.replace(peer, status=_STATUS_BY_EVENT.get(str(name), peer.status))
        card = payload.get("agent_card")
        if card is not None:
            description, skills = description_and_skills(card)
            if not description:  # the role is used instead, which only the row contains
                return False
            peer = msgspec.structs.replace(peer, description=description, skills=skills)
        peers[id_] = peer
        return assembler.update_peer(peer)
