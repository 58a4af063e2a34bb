"""Follows the journal of a workspace for what a host subscribes to, and downloads files of messages."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.client.retry import to_tool_error, unreachable_error
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.mcp_features import Changes, changed_ids, coalesce

# The server keeps events for longer than a stream is away; 30 s is what a person would wait for a notification.
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 30.0


async def download_file(membership: Membership, path: str, write: Callable[[bytes], object]) -> str:
    """Call `write` with each piece of a file, and return its name. Raises ToolError."""
    try:
        return await membership.api().download(path, write)
    except ApiError as error:
        raise to_tool_error(error) from None
    except NoAnswerError as error:
        raise unreachable_error(error) from None


def follow_changes(membership: Membership, clock: Clock, randomness: Randomness) -> Changes:
    """Follow the journal of a workspace, at most so often as what changes may be read."""
    return coalesce(_follow(membership, clock, randomness), clock)


async def _follow(membership: Membership, clock: Clock, randomness: Randomness) -> Changes:
    """Yield the ids of what changes in the journal, until cancelled. After a break, anything may have changed."""
    back_off = BackOff(_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS, randomness)
    while True:
        try:
            async with aclosing(membership.api().events()) as events:
                async for frame in events:
                    is_event = "event" in frame and "payload" in frame
                    if not is_event:  # the greeting, or a note that events are missing
                        back_off.reset()
                        yield frozenset()
                    elif ids := changed_ids(frame["payload"]):
                        yield ids
        except (ApiError, NoAnswerError):
            pass  # the next try shows whether the server is back; requests of the host report the reason
        await clock.wait(asyncio.get_running_loop().create_future(), back_off.next_delay())
