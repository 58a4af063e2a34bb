"""A redirect is no answer: it is told as what it is, nothing counts as done, and the same is asked for again later."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from molecule_core.agent.client.connections import ServerConnections
from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.agent.config import AgentSettings, WorkspaceConfig
from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.agent.mailbox.cursors import CursorFile
from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.mailbox.leader import LeaderLock
from molecule_core.agent.mailbox.membership import Membership, MembershipContext
from molecule_core.client.api import ApiClient, ApiError
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.waits import bounded, eventually, refused
from tests.other_servers import leading_to, other_server
from tests.requirements import requirement

PLACE = "https://molecule.example/login?next=a-secret"


@requirement("G7")
async def test_a_redirect_is_refused_and_says_where_it_leads_without_its_query() -> None:
    async with leading_to(PLACE) as other, ApiClient(other.url, "a-token") as api:
        error = await refused(bounded(api.post("/registry/register", {})))
        said = str(error.problem["error"])
        assert (error.status, error.code, error.is_transient) == (301, "", True)
        assert said.startswith(f"{other.url} redirects to https://molecule.example/login, and")
        assert "PLATFORM_URL" in said and "secret" not in str(error)
        with pytest.raises(ApiError, match=r"redirects to https://molecule\.example/login,"):
            await bounded(anext(api.events()))


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (["Location: /login#x"], "redirects to http://127.0.0.1:"),
        (["Location: //ada:secret@other.example:8443/%0a"], "redirects to http://other.example:8443/%0a, and"),
        (["Location: http://x:80a"], "does not respond like a Molecule server"),
        ([], "does not respond like a Molecule server"),
    ],
)
async def test_whatever_a_redirect_says_is_told_in_harmless_words(headers: list[str], said: str) -> None:
    async with other_server("307 Temporary Redirect", *headers) as other, ApiClient(other.url) as api:
        told = str(await refused(bounded(api.get("/"))))
        assert said in told and "secret" not in told


@requirement("G7")
async def test_a_seat_that_is_led_elsewhere_is_away_and_asks_again_later(clock: FakeClock, tmp_path: Path) -> None:
    async with leading_to(PLACE) as other:

        async def asked(count: int) -> bool:
            return len(other.asked) == count

        tokens, inbox = TokenRegistry(), MergedInbox()
        tokens.register("w", "token-of-w")
        servers = ServerConnections(tokens)
        shared = MembershipContext(
            clock=clock,
            randomness=SeededRandomness(),
            settings=AgentSettings(),
            tokens=tokens,
            servers=servers,
            inbox=inbox,
            card=dict,
        )
        place = WorkspaceConfig(id="w", url=other.url, token="token-of-w")
        seat = Membership(place, CursorFile(tmp_path, "w", single=True), LeaderLock(tmp_path, "w"), shared)
        life = asyncio.create_task(seat.run())
        try:
            await bounded(seat.first_poll_done.wait())
            assert (seat.state, other.asked) == ("away", ["POST /registry/register HTTP/1.1"])
            assert "redirects to https://molecule.example/login" in seat.problem
            for count in (2, 3):
                await clock.advance(10)
                assert await eventually(partial(asked, count), bool)
        finally:
            life.cancel()
            await asyncio.wait((life,))
            await servers.close()


async def test_who_has_patience_asks_again_after_a_redirect(clock: FakeClock) -> None:
    refusals = [ApiError(301, {"error": "elsewhere"}), ApiError(302, {"error": "elsewhere"})]

    async def ask() -> str:
        if refusals:
            raise refusals.pop()
        return "here"

    answering = asyncio.create_task(PersistentRetry(clock, SeededRandomness()).retry_call(ask))
    for _ in range(2):
        await settle()
        await clock.advance(30)
    assert await bounded(answering) == "here"


async def test_a_tool_that_is_led_elsewhere_is_refused_and_says_why() -> None:
    async with leading_to(PLACE) as other, ApiClient(other.url, "a-token") as api:
        speaker = RetryingRequester(api, BoundedRetry(clock=FakeClock(), randomness=SeededRandomness()))
        with pytest.raises(ToolError, match="redirects to"):
            await bounded(speaker.call("POST", "/workspaces/w/reply", body={"handle": "m1-abcde", "text": "hello"}))
        assert len(other.asked) == 1
