"""One WebSocket over ASGI: handshake, messages of both sides, close."""

import asyncio
from functools import partial

from molecule_core.api.asgi.channels import QueuedWebSocketChannel
from molecule_core.api.asgi.exchange import dispatch, rate_status_of
from molecule_core.api.asgi.messages import AsgiContext, Receive, Scope, Send, peer_of, request_headers, request_target
from molecule_core.api.http.application_protocol import R
from molecule_core.api.http.rate_limits import RateStatus
from molecule_core.api.http.response import Response, WebSocketHandler, WebSocketUpgrade
from molecule_core.api.http.response_head import header_list, rate_header_list
from molecule_core.common.errors import MoleculeError, RouteNotFound

_TOO_LARGE = 1009
"""WebSocket close code of a message that is too large (RFC 6455, 7.4.1)."""
# 1 s: a client that reads nothing must not delay the close.
_LAST_SEND_SECONDS = 1.0


async def serve_websocket(context: AsgiContext[R], scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one WebSocket, or reject its handshake with an HTTP response."""
    application = context.application
    await receive()  # websocket.connect
    start = asyncio.get_running_loop().time()
    client = application.client_address(peer_of(scope))
    request: R | None = None
    response: Response | None
    try:
        target = request_target(scope)
        request = application.authorize(b"GET", target, request_headers(scope), client)
        if not application.is_websocket_route(b"GET", target):
            raise RouteNotFound
        response = await dispatch(context, request, partial(_wait_disconnected, receive))
    except MoleculeError as error:
        response = application.error_response(error, client.rate_status)
    if response is None:
        return
    application.record_response(request, response.status, asyncio.get_running_loop().time() - start)
    status = rate_status_of(response, request, client)
    if isinstance(response.takeover, WebSocketUpgrade):
        await send({"type": "websocket.accept", "headers": rate_header_list(status)})
        await _serve_messages(context, response.takeover.handler, receive, send)
    else:
        await _reject(scope, response, status, send)


async def _wait_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def _reject(scope: Scope, response: Response, status: RateStatus, send: Send) -> None:
    """Send an HTTP response instead of the handshake; a server without that extension answers 403."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close"})
        return
    headers = header_list(response, status)
    await send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": response.body})


async def _serve_messages(context: AsgiContext[R], handler: WebSocketHandler, receive: Receive, send: Send) -> None:
    async def send_text(data: bytes) -> None:
        await send({"type": "websocket.send", "text": data.decode()})

    channel = QueuedWebSocketChannel()
    context.stream_handlers.add(handler)
    try:
        handler.on_open(channel)
        is_lost = await channel.run(send_text, _receive_messages(channel, handler, receive))
    finally:
        context.stream_handlers.discard(handler)
        handler.on_lost()
    if not is_lost:
        await _close(channel, send)


async def _receive_messages(channel: QueuedWebSocketChannel, handler: WebSocketHandler, receive: Receive) -> None:
    """Pass text messages to the handler until the client is gone. Reads nothing while the client does not read."""
    while True:
        await channel.wait_drained()
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        if channel.is_closing():
            continue
        text, data = message.get("text"), message.get("bytes")
        size = len(data or b"") if text is None else len(text.encode())
        if size > handler.max_message_bytes:
            channel.close(_TOO_LARGE, f"a message cannot be larger than {handler.max_message_bytes} bytes")
        elif handler.accept_frames(1) and text is not None:
            handler.on_text(text.encode())


async def _close(channel: QueuedWebSocketChannel, send: Send) -> None:
    try:
        async with asyncio.timeout(_LAST_SEND_SECONDS):
            await send({"type": "websocket.close", "code": channel.close_code, "reason": channel.close_reason})
    except (TimeoutError, OSError):  # the client reads nothing, or is gone
        return
