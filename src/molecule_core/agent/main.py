"""Runs `molecule mcp`, the process of an agent.

Answers the host first and loads the HTTP client after that. Ends when the host is gone.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from molecule_core.agent.config import Configuration, ConfigurationError, read_configuration, relay_workspace
from molecule_core.agent.host.detection import CHANNEL_CAPABILITY, wants_channel
from molecule_core.agent.host.mcp_host import AgentHost
from molecule_core.agent.host.permission_relay import PERMISSION_CAPABILITY as PERMISSION
from molecule_core.agent.host.permission_relay import PERMISSION_METHOD as PERMISSION_REQUEST
from molecule_core.agent.host.permission_relay import PendingPermissions
from molecule_core.agent.host.stdio import Stdio
from molecule_core.common.clock import SystemClock
from molecule_core.common.logs import configure_logging, register_secret
from molecule_core.tools.mcp_dispatcher import McpClientSession, SessionMode
from molecule_core.tools.mcp_subscriptions import server_features

_log = logging.getLogger("molecule.agent")
EXIT_REFUSED, EXIT_BAD_CONFIGURATION = 3, 2
# Requests running when the host closed its end still get their answers if they are done within this time.
_SHUTDOWN_SECONDS = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    """Run the agent's process and return its exit code."""
    try:
        config = read_configuration(os.environ)
    except ConfigurationError as error:
        sys.stderr.write(f"molecule mcp: {error}\n")
        return EXIT_BAD_CONFIGURATION
    for workspace in config.workspaces:
        register_secret(workspace.token)
    configure_logging("debug" if config.settings.verbose else "info", "text")
    for name in ("httpx2", "httpcore2", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return asyncio.run(McpProcess(config).run())


class McpProcess:
    """The connection to the host, and the runtime behind it."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._clock = SystemClock()
        self._permissions = PendingPermissions(is_relayed=relay_workspace(config) is not None)

    async def run(self) -> int:
        """Run until the host closes, a signal arrives or the only workspace is rejected; return the exit code."""
        loop = asyncio.get_running_loop()
        self._end: asyncio.Future[int] = loop.create_future()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._request_exit, 0)
        stdio = await Stdio.open(self._config.settings.line_bytes)
        host = AgentHost(self._config)
        # A host that finds the newer protocol cannot be pushed to.
        mode = SessionMode.BOTH if self._config.settings.channel == "off" else SessionMode.HANDSHAKE
        session = McpClientSession(
            host,
            stdio.send,
            mode=mode,
            experimental=self._experimental_offers,
            on_notification=self._handle_notification,
            on_fault=_log_fault,
            max_calls=self._config.settings.calls,
            extra=server_features(host.caller_workspaces, host, host.runtime, self._clock),
        )
        host.client = lambda: session.client
        runtime_task = asyncio.create_task(self._run_runtime(stdio, host, session))
        reader_task = asyncio.create_task(self._read_lines(stdio, session))
        code = await self._end
        for task in (reader_task, runtime_task):
            task.cancel()
        await asyncio.gather(reader_task, runtime_task, return_exceptions=True)
        await session.close()
        await self._clock.wait(stdio.close(), _SHUTDOWN_SECONDS)
        return code

    def _request_exit(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)

    async def _read_lines(self, stdio: Stdio, session: McpClientSession) -> None:
        async for line in stdio.lines():
            await session.receive_line(line)
        await self._clock.wait(session.drain(), _SHUTDOWN_SECONDS)
        self._request_exit(0)

    async def _run_runtime(self, stdio: Stdio, host: AgentHost, session: McpClientSession) -> None:
        await self._clock.wait(stdio.has_written.wait(), self._config.settings.start_seconds)
        try:
            runtime = self._build_runtime(host)
        except Exception as error:
            _log.exception("this agent cannot run")
            host.set_failed(error)
            return
        host.set_worker(runtime)
        push_task = asyncio.create_task(runtime.push_messages(session.notify, session.initialized))
        hooks_task = asyncio.create_task(runtime.serve_hooks(session.initialized))
        prompt_task = asyncio.create_task(runtime.push_prompts(session.initialized))
        relay_task = asyncio.create_task(runtime.relay_permissions(self._permissions, session.notify))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for task in (push_task, hooks_task, prompt_task, relay_task):
                task.cancel()
            await asyncio.shield(runtime.stop())

    def _build_runtime(self, host: AgentHost) -> Any:
        from molecule_core.agent.host.runtime import AgentRuntime

        runtime = AgentRuntime(
            self._config,
            clock=self._clock,
            card=host.card,
            client=host.client,
            on_refused=self._exit_refused,
            keeps_context=True,
        )
        runtime.memberships.start_all()
        return runtime

    def _experimental_offers(self, client: dict[str, Any]) -> Mapping[str, Any]:
        offers_channel = wants_channel(self._config.settings.channel, client)
        permission_offers: dict[str, Any] = {PERMISSION: {}} if relay_workspace(self._config) is not None else {}
        return {CHANNEL_CAPABILITY: {}, **permission_offers} if offers_channel else {}

    def _exit_refused(self, text: str) -> None:
        _log.error("%s", text)
        self._request_exit(EXIT_REFUSED)

    async def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == PERMISSION_REQUEST:
            self._permissions.add_request(params)


def _log_fault(error: BaseException) -> None:
    if not isinstance(error, OSError):  # a closed host is noticed on the input stream
        _log.error("internal error of the agent process", exc_info=error)
