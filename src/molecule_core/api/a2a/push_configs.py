"""Push notification configurations of A2A, for both lines and both bindings.

Called by `operations.py`, which has found the task; a configuration is a webhook of its caller
(`molecule_core.webhooks`).
"""

from collections.abc import Mapping
from typing import Any

from molecule_core.api.a2a.operations import A2ACall
from molecule_core.common.errors import InvalidField, UnsafeUrl
from molecule_core.webhooks.model import DEFAULT_ID, Webhook, WebhookKey, WebhookTarget
from molecule_core.webhooks.reader import WebhookReader
from molecule_core.webhooks.writer import WebhookWriter
from molecule_core.wire.protocols.a2a_push import PushConfig, parse_push_config, render_push_config
from molecule_core.wire.protocols.a2a_rpc import INVALID_PARAMS, TASK_NOT_FOUND, A2AError
from molecule_core.wire.protocols.a2a_shapes import A2ALine, A2ATask


class PushConfigs:
    """Operations on push notification configurations. Responses never have a token or credentials."""

    def __init__(self, reader: WebhookReader, writer: WebhookWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def check(self, call: A2ACall, config: Mapping[str, Any]) -> None:
        """Check the configuration that a message brings, before its task exists. Raises A2AError, CapacityExceeded."""
        await self._parse(call, config)
        await self._reader.check_capacity(call.workspace.org_id)

    async def create(self, call: A2ACall, task: A2ATask, config: Mapping[str, Any]) -> dict[str, Any]:
        """Store a configuration, or replace the one with its id. Raises A2AError, CapacityExceeded."""
        parsed = await self._parse(call, config)
        key = _key(call, task)._replace(id=parsed.id or DEFAULT_ID)
        return _render(await self._writer.save(key, task.workspace_id, _target_of(parsed, call.line)), call.line)

    async def get(self, call: A2ACall, task: A2ATask, config_id: str) -> dict[str, Any]:
        """Return a configuration; without an id the default one, or else the first. Raises A2AError."""
        key = _key(call, task)
        found = await self._reader.find(key._replace(id=config_id or DEFAULT_ID))
        if found is None and not config_id:
            found = next(iter(await self._webhooks_of(key)), None)
        if found is None:
            raise A2AError(TASK_NOT_FOUND, "the task has no such push notification configuration.")
        return _render(found, call.line)

    async def list_all(self, call: A2ACall, task: A2ATask) -> list[dict[str, Any]]:
        """Return the caller's configurations of a task."""
        return [_render(each, call.line) for each in await self._webhooks_of(_key(call, task))]

    async def delete(self, call: A2ACall, task: A2ATask, config_id: str) -> None:
        """Delete a configuration; one that does not exist is no error."""
        await self._writer.delete(_key(call, task)._replace(id=config_id or DEFAULT_ID))

    async def _webhooks_of(self, key: WebhookKey) -> list[Webhook]:
        return await self._reader.webhooks_of_task(key.org_id, key.task_id, key.owner)

    async def _parse(self, call: A2ACall, config: Mapping[str, Any]) -> PushConfig:
        parsed = parse_push_config(config, call.line)
        try:
            await self._writer.check(parsed.id or DEFAULT_ID, _target_of(parsed, call.line))
        except (InvalidField, UnsafeUrl) as error:
            raise A2AError(INVALID_PARAMS, error.text) from None
        return parsed


def _key(call: A2ACall, task: A2ATask) -> WebhookKey:
    return WebhookKey(task.org_id, task.id, call.caller_key, DEFAULT_ID)


def _target_of(config: PushConfig, line: A2ALine) -> WebhookTarget:
    return WebhookTarget(
        line=line.value, url=config.url, token=config.token, scheme=config.scheme, credentials=config.credentials
    )


def _render(webhook: Webhook, line: A2ALine) -> dict[str, Any]:
    config = PushConfig(id=webhook.id, url=webhook.url, token="", scheme=webhook.scheme, credentials="")
    return render_push_config(webhook.task_id, config, line)
