"""One HTTP request over ASGI: request, response, and the loss of the client between them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from molecule_core.api.asgi.channels import QueuedChannel
from molecule_core.api.asgi.messages import AsgiContext, Receive, Scope, Send, peer_of, request_headers, request_target
from molecule_core.api.asgi.request_body import AsgiBody, ClientDisconnected
from molecule_core.api.http.application_protocol import R
from molecule_core.api.http.rate_limits import ClientAddress, RateStatus
from molecule_core.api.http.response import EventStream, EventStreamHandler, Response, StreamedBody, WebSocketUpgrade
from molecule_core.api.http.response_head import header_list
from molecule_core.api.http.streaming_response import SEND_CHUNK_BYTES
from molecule_core.common.errors import MoleculeError, WebSocketRequired

# 1 s: a client that reads nothing must not keep an aborted stream open.
_LAST_SEND_SECONDS = 1.0


async def serve_http(context: AsgiContext[R], scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one request."""
    application, method = context.application, scope["method"].encode()
    client = application.client_address(peer_of(scope))
    body = AsgiBody(receive, context.limits, context.limits.body_bytes)
    start = asyncio.get_running_loop().time()
    request: R | None = None
    response: Response | None
    try:
        request = application.authorize(method, request_target(scope), request_headers(scope), client)
        if request.route.streams_body:
            body = AsgiBody(receive, context.limits, context.limits.upload_bytes)
            request.body_stream = body
        else:
            request.body = b"".join([chunk async for chunk in body])
            start = asyncio.get_running_loop().time()
        response = await dispatch(context, request, body.wait_disconnected)
    except MoleculeError as error:
        response = application.error_response(error, client.rate_status)
    except ClientDisconnected:
        return
    if response is None:
        return
    if isinstance(response.takeover, WebSocketUpgrade):
        response = application.error_response(WebSocketRequired())
    application.record_response(request, response.status, asyncio.get_running_loop().time() - start)
    status = rate_status_of(response, request, client)
    await _send_response(context, response, status, body, send, head_only=method == b"HEAD")


def rate_status_of(response: Response, request: R | None, client: ClientAddress) -> RateStatus:
    """Return the rate status that a response carries."""
    own_status = None if request is None else request.rate_status
    return response.rate_status or own_status or client.current_status()


async def dispatch(
    context: AsgiContext[R], request: R, wait_disconnected: Callable[[], Coroutine[Any, Any, None]]
) -> Response | None:
    """Run the handler. Cancels it, and returns None, if the client disconnects.

    A handler without a task waits only for a commit, which a disconnect does not undo."""
    answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def on_response(response: Response) -> None:
        if not answered.done():
            answered.set_result(response)

    task = context.application.dispatch(request, on_response)
    if task is None:
        return await answered
    if answered.done():
        return answered.result()
    lost = asyncio.ensure_future(wait_disconnected())
    try:
        await asyncio.wait((answered, lost, task), return_when=asyncio.FIRST_COMPLETED)
    finally:
        lost.cancel()
        if not answered.done():
            task.cancel()
    await asyncio.wait((lost,))  # a second receive must not run beside this one
    return answered.result() if answered.done() else None


async def _send_response(
    context: AsgiContext[R], response: Response, status: RateStatus, body: AsgiBody, send: Send, *, head_only: bool
) -> None:
    takeover = response.takeover
    length = takeover.source.size if isinstance(takeover, StreamedBody) else None
    headers = header_list(response, status, length=length)
    if body.is_given_up:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if isinstance(takeover, StreamedBody):
        await _send_source(context, takeover, send)
    elif isinstance(takeover, EventStream):
        await _send_events(context, takeover.handler, body, send)
    else:
        await send({"type": "http.response.body", "body": b"" if head_only else response.body})


async def _send_source(context: AsgiContext[R], streamed: StreamedBody, send: Send) -> None:
    """Send a body in chunks. A client that takes none of it within `body_seconds` is given up.

    The server closes the connection if the body is left incomplete."""
    source, remaining = streamed.source, streamed.source.size
    try:
        while remaining > 0:
            async with context.send_semaphore:
                chunk = await source.read(min(SEND_CHUNK_BYTES, remaining))
            if not chunk:
                return
            remaining -= len(chunk)
            async with asyncio.timeout(context.limits.body_seconds):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except (TimeoutError, OSError):  # the client reads nothing, or is gone
        return
    finally:
        source.close()


async def _send_events(context: AsgiContext[R], handler: EventStreamHandler, body: AsgiBody, send: Send) -> None:
    """Send what a handler writes until it ends the stream or the client is gone."""

    async def send_chunk(data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    channel = QueuedChannel()
    context.stream_handlers.add(handler)
    try:
        handler.on_open(channel)
        is_lost = await channel.run(send_chunk, body.wait_disconnected())
    finally:
        context.stream_handlers.discard(handler)
        handler.on_lost()
    if not is_lost:
        try:
            async with asyncio.timeout(_LAST_SEND_SECONDS):
                await send({"type": "http.response.body", "body": b""})
        except (TimeoutError, OSError):
            return
