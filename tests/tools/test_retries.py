"""What is lost between agent and server is asked again only where that can do nothing twice."""

from typing import Any

import pytest

from molecule_core.agent.client.retry import BoundedRetry, to_tool_error
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import APPROVAL_HEADER, ToolError
from testing.clocks import FakeClock, SeededRandomness
from tests.requirements import requirement


class Losing(ApiClient):
    """A client whose first answers are lost, or are refusals for the moment."""

    def __init__(self, *troubles: Exception) -> None:
        super().__init__("http://127.0.0.1:9")
        self.troubles = list(troubles)
        self.asked: list[str] = []

    async def call(self, method: str, path: str, **more: Any) -> Any:
        self.asked.append(path)
        if self.troubles:
            raise self.troubles.pop(0)
        return {"status": "ok"}


class Hurried(FakeClock):
    """A clock for which every wait is over at once."""

    async def wait(self, signal: Any, seconds: float) -> bool:
        signal.close() if hasattr(signal, "close") else signal.cancel()
        return False


def speaker(api: ApiClient) -> RetryingRequester:
    return RetryingRequester(api, BoundedRetry(clock=Hurried(), randomness=SeededRandomness()))


BUSY = ApiError(503, {"error": "too much is waiting", "code": "server_busy"})


@requirement("P2", "G1")
@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/workspaces/a/activity", None),
        ("POST", "/workspaces/a/notify", {"idempotency-key": "k"}),
        ("POST", "/workspaces/a/activity/ack", None),
        ("POST", "/workspaces/a/delegations/d-1/wait", None),
        ("POST", "/workspaces/a/delegations/d-1/cancel", None),
        ("POST", "/workspaces/a/delegations/d-1/status", None),
        ("POST", "/registry/check-access", None),
    ],
)
async def test_what_can_do_nothing_twice_is_asked_again(method: str, path: str, headers: dict[str, str] | None) -> None:
    async with (api := Losing(NoAnswerError("gone"), NoAnswerError("gone"))):
        assert await speaker(api).call(method, path, headers=headers) == {"status": "ok"}
        assert api.asked == [path] * 3


@requirement("P2", "G10")
async def test_a_message_with_an_id_of_its_own_is_sent_again_and_one_without_is_not() -> None:
    path, keyed = "/workspaces/b/a2a", {"params": {"message": {"messageId": "m-1"}}}
    async with (api := Losing(NoAnswerError("gone"))):
        assert await speaker(api).call("POST", path, body=keyed) == {"status": "ok"}
    async with (api := Losing(NoAnswerError("gone"))):
        with pytest.raises(ToolError, match="did not answer"):
            await speaker(api).call("POST", path, body={"params": {"message": {}}})
        assert api.asked == [path]


@requirement("P2", "G1")
async def test_what_may_have_been_done_is_not_asked_again_but_what_was_refused_for_now_is() -> None:
    async with (api := Losing(NoAnswerError("gone"))):
        with pytest.raises(ToolError, match="did not answer") as lost:
            await speaker(api).call("POST", "/workspaces/a/memories", body={})
        assert (lost.value.code, len(api.asked)) == ("no_answer", 1)
    async with (api := Losing(BUSY, BUSY)):
        assert await speaker(api).call("POST", "/workspaces/a/memories", body={}) == {"status": "ok"}
    async with (api := Losing(*[BUSY] * 9)):
        with pytest.raises(ToolError, match="too much is waiting") as refused:
            await speaker(api).call("POST", "/workspaces/a/memories", body={})
        assert refused.value.code == "server_busy"


@requirement("D9", "D13")
async def test_a_task_without_a_key_is_given_once_and_a_refusal_by_a_limit_is_not_asked_for_again() -> None:
    path = "/workspaces/a/delegate"
    async with (api := Losing(NoAnswerError("gone"))):
        with pytest.raises(ToolError, match="did not answer"):
            await speaker(api).call("POST", path, body={})
        assert api.asked == [path]
    async with (api := Losing(NoAnswerError("gone"))):
        assert await speaker(api).call("POST", path, body={}, headers={"idempotency-key": "k"}) == {"status": "ok"}
    limit = ApiError(429, {"error": "this delegation is refused", "code": "delegation_limit"})
    async with (api := Losing(limit, limit)):
        with pytest.raises(ToolError, match="this delegation is refused") as refused:
            await speaker(api).call("POST", path, body={}, headers={"idempotency-key": "k"})
        assert (refused.value.code, len(api.asked)) == ("delegation_limit", 1)


@requirement("G1", "Q6")
async def test_a_call_that_uses_an_approval_is_made_once_and_says_why_it_was_refused() -> None:
    path = "/workspaces/a/delegate"
    frozen = ApiError(429, {"error": "this chain is stopped", "code": "chain_frozen"})
    async with (api := Losing(frozen, ApiError(409, {"error": "used before", "code": "approval_used"}))):
        with pytest.raises(ToolError, match="this chain is stopped") as refused:
            await speaker(api).call("POST", path, body={}, headers={APPROVAL_HEADER: "ap-1"})
        assert (refused.value.code, api.asked) == ("chain_frozen", [path])


@requirement("G6", "Q4")
@pytest.mark.parametrize(
    ("status", "by_itself", "with_a_file"),
    [
        (200, True, True),
        (302, True, True),
        (401, False, True),
        (403, False, False),
        (404, False, False),
        (409, False, False),
        (429, True, True),
        (502, True, True),
    ],
)
def test_a_refusal_that_is_no_word_on_what_was_asked_says_so(status: int, by_itself: bool, with_a_file: bool) -> None:
    error = ApiError(status, {"error": "no"})
    assert [to_tool_error(error).is_transient, to_tool_error(error, is_token_renewable=True).is_transient] == [
        by_itself,
        with_a_file,
    ]
