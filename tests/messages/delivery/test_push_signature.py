"""A push proves that it comes from the server: signatures, rotation, secrets that appear nowhere else."""

import asyncio
import importlib.util
import logging
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.messages.delivery.push_signature import PushSigner
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import journal_of
from testing.ports import free_port
from testing.processes import client, environment, serving, started
from testing.push_agents import PushNetwork, said
from testing.running_server import ADMIN_TOKEN, running
from testing.waits import refused
from tests.messages.delivery.push_server import URL, PushServer
from tests.requirements import requirement

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "push_agent.py"
GRACE = 600


def load_example() -> Any:
    """The agent of the documentation, as a module."""
    spec = importlib.util.spec_from_file_location("push_agent_example", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


is_genuine = load_example().is_genuine


class RecordingNetwork(PushNetwork):
    """Keeps the bytes of each push as well."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    async def post(self, url: str, headers: dict[str, str], body: bytes, **more: Any) -> Any:
        self.bodies.append(body)
        return await super().post(url, headers, body, **more)


@pytest.fixture
def limits() -> Limits:
    return Limits(push_secret_grace_seconds=GRACE)


@pytest.fixture
async def post(engine: Engine, place: str, tmp_path: Path, clock: FakeClock, limits: Limits) -> Any:
    """A server with one push agent that answers."""
    net = RecordingNetwork()
    net.answers(URL, said("done"))
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, limits=limits) as server:
        ops = await server.seat("Ops", delivery_mode="push", url=URL)
        yield PushServer(server, await server.person(), clock, net, ops)


async def rotate(post: PushServer, **body: Any) -> Any:
    """A new secret instead of the old one."""
    return await post.person.post(f"/workspaces/{post.ops.id}/push-secret/rotate", body)


async def checks(post: PushServer, *secrets: str) -> list[bool]:
    """Sends a message; which of the secrets its push is signed with, for an agent that follows the documentation."""
    await post.say("hi", patience=20)
    net = post.net
    assert isinstance(net, RecordingNetwork)
    headers, body, now = net.pushed[-1].headers, net.bodies[-1], post.clock.now() / SECOND
    stamp, signatures = headers.get("x-molecule-timestamp", ""), headers.get("x-molecule-signature", "")
    return [is_genuine(secret, stamp, signatures, body, now) for secret in secrets]


@requirement("M14")
async def test_a_push_is_signed_with_the_secret_that_its_creation_showed(post: PushServer) -> None:
    created = await post.person.post("/workspaces", {"name": "New", "delivery_mode": "push", "url": URL + "/new"})
    secret = created["connection"]["push_secret"]
    assert secret.startswith("mol_ps_")
    post.net.answers(URL + "/new", said("done"))

    await post.person.call(
        "POST",
        f"/workspaces/{created['id']}/a2a",
        body={"params": {"message": {"role": "user", "parts": [{"kind": "text", "text": "hé"}]}}},
        headers={"x-timeout": "20"},
    )

    net = post.net
    assert isinstance(net, RecordingNetwork)
    headers, body, now = net.pushed[-1].headers, net.bodies[-1], post.clock.now() / SECOND
    stamp, signatures = headers["x-molecule-timestamp"], headers["x-molecule-signature"]
    assert int(stamp) == int(now)
    assert is_genuine(secret, stamp, signatures, body, now)
    assert not is_genuine(secret, stamp, signatures, body + b" ", now)
    assert not is_genuine(secret, str(int(stamp) + 1), signatures, body, now)
    assert not is_genuine(secret[:-1], stamp, signatures, body, now)
    assert not is_genuine(secret, stamp, "", body, now)
    assert not is_genuine(secret, stamp, signatures, body, now + 301)


@requirement("M14", "M7")
async def test_the_old_secret_signs_too_until_its_grace_time_ends(post: PushServer) -> None:
    first = (await rotate(post))["push_secret"]
    second = await rotate(post)
    assert second["ended"] == 1
    assert await checks(post, first, second["push_secret"]) == [True, True]
    assert len(post.net.pushed[-1].headers["x-molecule-signature"].split()) == 2

    await post.clock.advance(GRACE - 1)
    assert await checks(post, first, second["push_secret"]) == [True, True]
    await post.clock.advance(1)
    assert await checks(post, first, second["push_secret"]) == [False, True]


@requirement("M14", "M7")
async def test_a_leaked_secret_ends_at_once_and_only_one_old_secret_signs(post: PushServer) -> None:
    first = (await rotate(post))["push_secret"]
    second = (await rotate(post))["push_secret"]
    third = (await rotate(post))["push_secret"]
    assert await checks(post, first, second, third) == [False, True, True]
    fourth = (await rotate(post, grace_seconds=0))["push_secret"]
    assert await checks(post, second, third, fourth) == [False, False, True]


@requirement("M14")
async def test_a_grace_time_above_the_limit_is_refused_with_both_numbers(post: PushServer) -> None:
    error = await refused(rotate(post, grace_seconds=GRACE + 1))
    assert error.status == 422
    assert f"grace_seconds cannot be {GRACE + 1}. Use a number from 0 to {GRACE}." in str(error)


@requirement("M14", "O3")
async def test_an_agent_that_became_a_push_agent_later_is_unsigned_until_a_secret_is_created(post: PushServer) -> None:
    other = await post.server.seat("Other")
    url = URL + "/other"
    post.net.answers(url, said("done"))
    await post.person.call("PATCH", f"/workspaces/{other.id}", body={"delivery_mode": "push", "url": url})
    await post.say("hi", to=other, patience=20)
    assert not any("signature" in name or "timestamp" in name for name in post.net.of(url)[-1].headers)

    answer = await post.person.post(f"/workspaces/{other.id}/push-secret/rotate")
    assert answer["ended"] == 0
    await post.say("hi", to=other, patience=20)
    assert "x-molecule-signature" in post.net.of(url)[-1].headers


@requirement("O3", "M7")
async def test_a_secret_appears_in_no_log_no_event_and_no_later_response(
    post: PushServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = [(await rotate(post))["push_secret"] for _ in range(2)]
    assert await checks(post, *secrets) == [True, True]
    one, org_id = f"/workspaces/{post.ops.id}", (await post.server.admin.get("/orgs"))[0]["id"]
    paths = (one, f"{one}/tokens", f"{one}/external/connection", f"{one}/activity", "/workspaces")
    seen = [await post.person.get(path) for path in (*paths, f"/orgs/{org_id}/snapshot")]
    text = str(seen) + str(await journal_of(post.server)) + caplog.text + repr(PushSigner(tuple(secrets)))
    assert [secret for secret in secrets if secret[15:] in text] == []


@requirement("O3")
async def test_the_secrets_of_a_removed_workspace_are_deleted(post: PushServer) -> None:
    store, query = post.server.server.store, {"workspace_id": post.ops.id, "now": 0}
    assert len(await store.rows("push_secrets", query)) == 1
    await post.person.call("DELETE", f"/workspaces/{post.ops.id}", query={"confirm": "true"})
    assert await store.rows("push_secrets", query) == []


@requirement("M14")
async def test_the_documented_agent_takes_a_real_servers_pushes_and_refuses_those_of_others(tmp_path: Path) -> None:
    port, own = free_port(), free_port()
    async with (
        serving(tmp_path / "state", port, MOLECULE_PUSH_NETWORKS="127.0.0.0/8"),
        client(port, ADMIN_TOKEN) as admin,
    ):
        url = f"http://127.0.0.1:{own}/"
        created = await admin.post("/workspaces", {"name": "Echo", "delivery_mode": "push", "url": url})
        secret = created["connection"]["push_secret"]
        env = {**environment(tmp_path, own), "PORT": str(own), "MOLECULE_PUSH_SECRET": secret}
        async with started(sys.executable, str(EXAMPLE), env=env) as agent:
            await agent.says("waiting for pushes")
            body = {"params": {"message": {"role": "user", "parts": [{"kind": "text", "text": "hi"}]}}}
            answer = await admin.call(
                "POST", f"/workspaces/{created['id']}/a2a", body=body, headers={"x-timeout": "30"}
            )
            assert answer["result"]["parts"] == [{"kind": "text", "text": "You said: hi"}]
            forged = await asyncio.to_thread(post_plain, url, msgspec.json.encode(body))
            assert forged == 401


def post_plain(url: str, body: bytes) -> int:
    """The status that an agent answers to a stranger."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=20) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_documentation_shows_the_check_of_the_example() -> None:
    source = EXAMPLE.read_text()
    start, end = source.index("def is_genuine"), source.index("class Agent")
    assert source[start:end].strip() in (ROOT / "docs" / "explanation" / "delivery.md").read_text()
