"""`subscriptions/listen` of the stateless versions: one long response that notifies of changed resources and tasks.

Called by `tools/mcp_dispatcher.py`; calls the features whose changes may be followed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from molecule_core.common.clock import Clock
from molecule_core.tools.mcp_dispatcher import ExtraMethods, ToolHost
from molecule_core.tools.mcp_features import (
    MAX_WATCHES,
    STATELESS_SINCE,
    CallerWorkspaces,
    FeatureMethod,
    FeatureRequest,
    Notification,
    Watch,
    WatchSet,
    to_rpc_error,
)
from molecule_core.tools.mcp_prompts import PromptFeature
from molecule_core.tools.mcp_resources import ResourceFeature
from molecule_core.tools.mcp_tasks import TaskFeature
from molecule_core.tools.spec import ToolError
from molecule_core.wire.protocols.jsonrpc import INVALID_PARAMS, RpcError, as_object
from molecule_core.wire.schemas.runtimes import Runtime

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"


class SubscriptionFeature:
    """Streams of notifications. Implements `McpFeature`."""

    def __init__(self, workspaces: CallerWorkspaces, resources: ResourceFeature, tasks: TaskFeature) -> None:
        self._workspaces = workspaces
        self._resources = resources
        self._tasks = tasks

    def capabilities(self, version: str) -> dict[str, Any]:
        """Return nothing: what can be followed is announced by its own feature."""
        return {}

    def methods(self, version: str) -> Mapping[str, FeatureMethod]:
        """Return the methods."""
        return {"subscriptions/listen": self._listen} if version >= STATELESS_SINCE else {}

    async def _listen(self, request: FeatureRequest) -> dict[str, Any]:
        """Send notifications until the client cancels the request or the journal ends.

        What the caller may not follow is missing in the acknowledgement, as if it did not exist."""
        wanted = as_object(request.params.get("notifications"))
        uris, task_ids = _texts(wanted, "resourceSubscriptions"), _texts(wanted, "taskIds")
        if task_ids:
            self._tasks.check_declared(request)
        meta = {SUBSCRIPTION_KEY: request.id}

        async def send(notification: Notification) -> None:
            await request.session.notify(notification.method, {**notification.params, "_meta": meta})

        watches, acknowledged = WatchSet(send), dict[str, list[str]]()
        found: list[tuple[str, Watch]] = []
        for name, keys, find_watch in (
            ("resourceSubscriptions", uris, self._resources.find_watch),
            ("taskIds", task_ids, self._tasks.find_watch),
        ):
            for key in keys:
                try:
                    found.append((f"{name} {key}", await find_watch(key, request)))
                except RpcError as error:
                    if error.code != INVALID_PARAMS:
                        raise
                    continue
                acknowledged.setdefault(name, []).append(key)
        try:
            # The versions from which changes count are read before the client learns that it is subscribed.
            for key, watch in found:
                await watches.add(key, watch, is_run=True)
            await request.session.notify(
                "notifications/subscriptions/acknowledged", {"notifications": acknowledged, "_meta": meta}
            )
            await watches.run(await self._workspaces())
        except ToolError as error:
            raise to_rpc_error(error) from None
        finally:
            await watches.close()
        return {"_meta": meta}


def _texts(wanted: dict[str, Any], name: str) -> list[str]:
    """Return a list of the filter, each member once. Raises RpcError."""
    values = wanted.get(name) or []
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise RpcError(INVALID_PARAMS, f"{name} must be a list of texts.")
    if len(values) > MAX_WATCHES:
        raise RpcError(INVALID_PARAMS, f"{name} cannot have {len(values)} members. Send at most {MAX_WATCHES}.")
    return list(dict.fromkeys(values))


def server_features(
    workspaces: CallerWorkspaces, host: ToolHost, runtime: Callable[[], Runtime], clock: Clock
) -> ExtraMethods:
    """Return what a server offers beside its tools. Both entrances offer the same."""
    resources, tasks = ResourceFeature(workspaces, clock), TaskFeature(workspaces, host, clock)
    subscriptions = SubscriptionFeature(workspaces, resources, tasks)
    return ExtraMethods(features=(PromptFeature(workspaces, runtime), resources, tasks, subscriptions), tasks=tasks)
