"""Builds the readers of A2A tasks, and the routes of A2A. Called by `composition.py`."""

from collections.abc import Iterator
from typing import NamedTuple

from molecule_core.api.a2a.card_routes import CardRoutes
from molecule_core.api.a2a.card_signatures import load_signer
from molecule_core.api.a2a.cards import CardBuilder
from molecule_core.api.a2a.operations import A2AOperations
from molecule_core.api.a2a.push_configs import PushConfigs
from molecule_core.api.a2a.routes import A2ARoutes
from molecule_core.api.a2a.streams import A2AStreams
from molecule_core.api.auth import Authenticator
from molecule_core.api.delegations.a2a_delegation import A2ADelegation
from molecule_core.api.messages.send import MessageRoutes
from molecule_core.api.routing import Route
from molecule_core.messages.reader import TraceReader
from molecule_core.org.reader import OrgReader
from molecule_core.server.process import ProcessRuntime
from molecule_core.server.services import ApprovalServices, DelegationServices, MessageServices, WebhookServices
from molecule_core.views.a2a_tasks import A2ATaskChanges, A2ATaskReader
from molecule_core.views.webhook_tasks import TaskReaders


class A2AServices(NamedTuple):
    """Services that A2A translates to."""

    messages: MessageServices
    delegations: DelegationServices
    approvals: ApprovalServices
    webhooks: WebhookServices
    readers: TaskReaders


class A2AEntrances(NamedTuple):
    """The routes of messages, which the older wire shares, and delegations by messages."""

    authenticator: Authenticator
    message_routes: MessageRoutes
    delegation: A2ADelegation


def build_task_readers(
    runtime: ProcessRuntime, messages: MessageServices, delegations: DelegationServices, approvals: ApprovalServices
) -> TaskReaders:
    """Build the readers of messages and delegations as A2A tasks."""
    store, wakeups = runtime.store, runtime.wakeups
    tasks = A2ATaskReader(
        messages.task_reader,
        delegations.reader,
        approvals.reader,
        TraceReader(store),
        wakeups,
        public_url=runtime.settings.url,
    )
    changes = A2ATaskChanges(store, wakeups, tasks, messages.task_reader)
    return TaskReaders(tasks, changes, messages.task_reader)


def a2a_routes(
    runtime: ProcessRuntime, org: OrgReader, services: A2AServices, entrances: A2AEntrances
) -> Iterator[Route]:
    """Yield the routes of A2A."""
    settings, limits, messages = runtime.settings, runtime.settings.limits, services.messages
    operations = A2AOperations(
        services.readers.tasks,
        org,
        message_routes=entrances.message_routes,
        delegation=entrances.delegation,
        delegation_writer=services.delegations.writer,
        canceller=messages.canceller,
        approval_writer=services.approvals.writer,
        approval_reader=services.approvals.reader,
        files=messages.file_writer,
        message_meter=messages.meter,
        push=PushConfigs(services.webhooks.reader, services.webhooks.writer),
        limits=limits,
    )
    card_builder = CardBuilder(
        public_url=settings.url,
        has_push=operations.push is not None,
        is_dual=settings.a2a_legacy_cards,
        blocking_seconds=limits.patience_seconds,
        signer=load_signer(settings.a2a_card_key) if settings.a2a_card_key else None,
    )
    streams = A2AStreams(services.readers.changes, limits=limits)
    yield from A2ARoutes(operations, streams, card_builder, entrances.message_routes, entrances.authenticator).routes()
    yield from CardRoutes(
        card_builder, org, entrances.authenticator, root_workspace=settings.a2a_root_workspace
    ).routes()
