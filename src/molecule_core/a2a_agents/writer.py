"""Writes the A2A agents of workspaces and the checks of their cards. No other module changes their tables."""

import asyncio
import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from molecule_core.a2a_agents import rules
from molecule_core.a2a_agents.client import A2AClient
from molecule_core.a2a_agents.model import (
    A2A_CARD_TIMER,
    A2A_TASK_TIMER,
    A2AAgent,
    A2ACredential,
    CardKeys,
    FetchedCard,
    RemoteTask,
    TaskUpdates,
    encode_card,
    encode_card_keys,
    encode_credential,
    same_card,
)
from molecule_core.a2a_agents.reader import A2AAgentReader
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import FetchFailed, InvalidField, MoleculeError, NotFound
from molecule_core.common.ids import Randomness
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.org.model import Heartbeat, Workspace, WorkspacesRemoved
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter
from molecule_core.store.database import (
    Command,
    CommandSteps,
    ReadQuery,
    Statement,
    StepRequest,
    Store,
    WriteSet,
    write_only,
)
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.protocols.a2a_call import PushTarget

_log = logging.getLogger("molecule.a2a")
# Cards that are fetched at once.
_CONCURRENT_CHECKS = 16
_MAX_ERROR_LENGTH = 500
_KEY_BYTES = 32
NOTIFICATION_PATH = "/a2a/push/{workspace_id}/{activity_id}"


class PreparedAgent(NamedTuple):
    """A fetched card and a completed credential, to be stored with a workspace."""

    card_url: str
    fetched: FetchedCard
    credential: A2ACredential | None
    card_keys: CardKeys | None


class A2AAgentWriter:
    """Stores the A2A agents of workspaces, and checks their cards, which are their heartbeats."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        org_writer: OrgWriter,
        client: A2AClient,
        *,
        clock: Clock,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._org_writer = org_writer
        self._client = client
        self._clock = clock
        self._randomness = randomness
        self._limits = limits
        self._slots = asyncio.Semaphore(_CONCURRENT_CHECKS)
        self._checks: set[asyncio.Task[None]] = set()

    async def prepare(
        self,
        card_url: str,
        credential: Callable[[FetchedCard], A2ACredential | None],
        card_keys: CardKeys | None = None,
    ) -> PreparedAgent:
        """Fetch and check the card of an agent before it is stored.

        `credential`: completes a credential with what the card says. `card_keys`: the card must be signed by one of
        them. Raises InvalidField, UnsafeUrl."""
        try:
            fetched = await self._client.fetch_card(card_url, keys=card_keys)
        except FetchFailed as error:
            raise InvalidField(
                reason=f"the agent card could not be fetched: {error.details['reason']}. Check its url."
            ) from None
        assert fetched is not None  # without an ETag there is always a card
        return PreparedAgent(card_url, fetched, credential(fetched), card_keys)

    def changes(self, prepared: PreparedAgent | None) -> Callable[[Workspace], WriteSet[None]]:
        """Return what a command that creates or changes a workspace also stores: its agent, or that it has none."""

        def write_agent(workspace: Workspace) -> WriteSet[None]:
            if prepared is None or workspace.a2a_card_url != prepared.card_url:
                is_kept = workspace.a2a_card_url is not None
                return WriteSet(None, [] if is_kept else forget_statements(workspace.id))
            agent = A2AAgent(
                workspace_id=workspace.id,
                org_id=workspace.org_id,
                card_url=prepared.card_url,
                etag=None,
                card=encode_card(prepared.fetched.parsed),
                credential=encode_credential(prepared.credential),
                checked_at=0,
                error=None,
                notification_key=self._new_notification_key(),
                card_keys=encode_card_keys(prepared.card_keys),
                signature=prepared.fetched.signature.value,
            )
            # The first check stores the card in the workspace and makes it online.
            writes: list[Statement] = [
                ("save_a2a_agent", agent),
                set_timer(A2A_CARD_TIMER, workspace.id, self._clock.now()),
            ]
            return WriteSet(None, writes, notify=(TIMERS_KEY,))

        return write_agent

    def _new_notification_key(self) -> str:
        return self._randomness.secret(_KEY_BYTES).hex()

    # -- checks of cards -----------------------------------------------------------------------------------------------

    async def on_due(self, workspace_id: str) -> None:
        """Start the check of a card and schedule the next one."""
        workspace = self._org.workspace(workspace_id)
        rows = await self._store.rows("a2a_agent", {"workspace_id": workspace_id})
        if not rows or workspace is None or workspace.removed:
            await self._store.run(_workspace_command("", workspace_id, [cancel_timer(A2A_CARD_TIMER, workspace_id)]))
            return
        next_at = self._clock.now() + self._limits.a2a_card_seconds * SECOND
        await self._store.run(
            _workspace_command(workspace.org_id, workspace_id, [set_timer(A2A_CARD_TIMER, workspace_id, next_at)])
        )
        task = asyncio.get_running_loop().create_task(self._check(workspace, A2AAgent(*rows[0])))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def close(self) -> None:
        """End running checks."""
        for task in list(self._checks):
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)

    async def _check(self, workspace: Workspace, agent: A2AAgent) -> None:
        """Fetch a card: what has changed is stored, and an agent that shows its card is alive."""
        async with self._slots:
            key = agent.notification_key or self._new_notification_key()
            checked = replace(agent, checked_at=self._clock.now(), error=None, notification_key=key)
            try:
                keys = agent.parsed_card_keys()
                # A signed card is read anew each time: its keys may have been withdrawn.
                fetched = await self._client.fetch_card(agent.card_url, agent.etag if keys is None else None, keys)
                if fetched is not None:
                    card, signature = encode_card(fetched.parsed), fetched.signature.value
                    checked = replace(checked, etag=fetched.etag, card=card, signature=signature)
                    if not same_card(workspace.agent_card, fetched.card):
                        await self._org_writer.update_card(workspace.id, fetched.card)
            except MoleculeError as error:
                reason = error.details.get("reason") or error.text
                checked = replace(checked, error=truncate_line(str(reason), _MAX_ERROR_LENGTH), etag=None)
            if not agent.checked_at or replace(checked, checked_at=agent.checked_at) != agent:
                await self._store.run(
                    _workspace_command(workspace.org_id, workspace.id, [("save_a2a_check", _check_row(checked))])
                )
            if checked.error is None:
                heartbeat = Heartbeat(heard_at=checked.checked_at)
                await self._org_writer.handle_heartbeat(workspace.id, heartbeat, runtime_state=None)

    def on_workspaces_removed(self, _org_id: str, event: WorkspacesRemoved) -> CommandSteps[object]:
        """Delete the agents of removed workspaces, with their credentials and tasks."""
        return write_only(WriteSet(None, [each for id_ in event.ids for each in forget_statements(id_)]))


def _check_row(agent: A2AAgent) -> dict[str, Any]:
    names = ("workspace_id", "card_url", "etag", "card", "checked_at", "error", "notification_key", "signature")
    return {**{name: getattr(agent, name) for name in names}, "card_keys": agent.card_keys or ""}


def _workspace_command(org_id: str, workspace_id: str, writes: list[Statement]) -> Command[None]:
    return Command(org_id, (("a2a agent", workspace_id),), lambda: write_only(WriteSet(None, writes)))


def forget_statements(workspace_id: str) -> list[Statement]:
    """Return the statements that delete the A2A agent of a workspace and its tasks."""
    row = {"workspace_id": workspace_id}
    return [("forget_a2a_agent", row), ("forget_a2a_tasks", row), cancel_timer(A2A_CARD_TIMER, workspace_id)]


# -- tasks -------------------------------------------------------------------------------------------------------------


def load_task(workspace_id: str, activity_id: str) -> Generator[StepRequest, Any, RemoteTask | None]:
    """Load the task that carries a message."""
    rows = yield ReadQuery("a2a_task", {"workspace_id": workspace_id, "activity_id": activity_id})
    return RemoteTask(*rows[0]) if rows else None


def save_task(task: RemoteTask) -> list[Statement]:
    """Return the statements that store a task, and when it is looked at next."""
    timer = set_timer(A2A_TASK_TIMER, task.key, task.due) if task.due else cancel_timer(A2A_TASK_TIMER, task.key)
    return [("save_a2a_task", task), timer]


class TaskNotifications:
    """Addresses for push notifications, and their effect. `public_url`: empty if agents cannot reach the server.

    A notification is a reason to ask for the task, and nothing else: what it says is not read. So a forged or repeated
    one can cost a request and change nothing."""

    def __init__(self, store: Store, reader: A2AAgentReader, *, clock: Clock, public_url: str) -> None:
        self._store = store
        self._reader = reader
        self._clock = clock
        self._public_url = public_url

    def updates_of(self, agent: A2AAgent) -> TaskUpdates:
        """Return how the server learns of changes of an agent's tasks."""
        return rules.updates_of(agent.parsed_card(), self._public_url)

    def target_for(self, agent: A2AAgent, activity_id: str) -> PushTarget | None:
        """Return where an agent sends notifications of the task of a message; None if it is polled or streams."""
        if self.updates_of(agent) is not TaskUpdates.PUSH or not agent.notification_key:
            return None
        path = NOTIFICATION_PATH.format(workspace_id=agent.workspace_id, activity_id=activity_id)
        return PushTarget(self._public_url + path, rules.notification_token(agent, activity_id))

    async def accept(self, workspace_id: str, activity_id: str, tokens: tuple[str, ...]) -> None:
        """Schedule a look at a task whose agent notifies us; for a task that has ended, nothing.

        `tokens`: all that the request has. Raises NotFound, the same for an unknown task and a wrong token."""
        agent = await self._reader.agent(workspace_id)
        if agent is None or not any(rules.is_notification_token(agent, activity_id, each) for each in tokens):
            raise NotFound(what="task")
        key = f"{workspace_id}/{activity_id}"
        decide = partial(self._decide_look, workspace_id, activity_id)
        await self._store.run(Command(agent.org_id, (("a2a task", key),), decide))

    def _decide_look(self, workspace_id: str, activity_id: str) -> CommandSteps[None]:
        task = yield from load_task(workspace_id, activity_id)
        # One that arrives before its task is stored is not needed either: the task is looked at once it is.
        if task is None or task.due == 0:
            return WriteSet(None)
        noted = rules.with_notification(task, self._clock.now())
        return WriteSet(None, save_task(noted), notify=(TIMERS_KEY,))
