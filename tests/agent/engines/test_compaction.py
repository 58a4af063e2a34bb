"""Compaction keeps the conversation: turns over a real server and a provider that refuses what the vendors refuse."""

import random
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.engines import texts
from molecule_core.agent.engines.chat_encoding import INCOMING_TOOL
from testing.running_server import Running, Seat
from tests.agent.agent_runs import Watcher, home, keep_drafts, living, long
from tests.agent.model_endpoint import Asked, Reply, endpoint
from tests.requirements import requirement

SUMMARY = "So far: they talked about ships."
PEERS: tuple[tuple[str, str, dict[str, Any]], ...] = (("c1", "list_peers", {}),)
PROVIDERS = {"openai": "openai:scripted", "anthropic": "anthropic:claude-scripted"}


class Desk:
    """Answers as a model would: summaries when asked for one, else sometimes a call first, then `re <number>`."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.compactions = 0
        self.after: list[Asked] = []
        """Requests directly after a compaction."""

    def __call__(self, asked: Asked) -> Reply:
        """Answer one request."""
        messages = asked.body["messages"]
        if _has(messages[-1], texts.COMPACT_PROMPT):
            self.compactions += 1
            return Reply(SUMMARY, thought="How to say it.")
        if _has(messages[-1], texts.COMPACTED_NOTE):
            self.after.append(asked)
        if self._rng.random() < 0.4 and not _has(messages[-1], '"peers"'):
            return Reply("x" * self._rng.randrange(900), PEERS, thought="Who is there?")
        return Reply("y" * self._rng.randrange(900) + " done")


def _has(message: dict[str, Any], text: str) -> bool:
    content = message["content"]
    pieces = (
        [content] if isinstance(content, str) else [each.get("text", each.get("content")) for each in content or []]
    )
    return any(text in str(each) for each in pieces)


def _words(message: dict[str, Any]) -> list[str]:
    """Return the plain text of a message in its role, without tool results."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [each["text"] for each in content or [] if each["type"] == "text"]


async def _send(person: Any, peer: Seat, seat: Seat, number: int, rng: random.Random) -> str:
    """Send one message, of the person or of the peer; its id."""
    text = f"Question {number}: {'z' * rng.randrange(1200)}"
    if number % 3:
        return str((await person.send(seat.id, f"person {text}"))["activity_id"])
    return str((await peer.api.send(seat.id, f"peer {text}"))["activity_id"])


def _check_request(asked: Asked, provider: str) -> None:
    messages = asked.body["messages"]
    system = [{"role": "system", "content": asked.body["system"]}] if "system" in asked.body else []
    roles = [each["role"] for each in messages]
    assert "user" in roles
    for each in (*system, *messages):
        if each["role"] != "tool":  # as results of incoming_message only
            assert not any("peer Question" in words for words in _words(each)), (provider, each)
        if each["role"] == "system":
            assert SUMMARY not in str(each["content"])


@requirement("AR1", "AR3")
@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("turns", [15, pytest.param(100, marks=pytest.mark.exhaustive)])
async def test_turns_with_compactions_at_random_points_answer_each_message(
    server: Running, tmp_path: Path, provider: str, turns: int
) -> None:
    rng = random.Random(f"compaction {provider}")
    seat, peer, person = await server.seat("Ops"), await server.seat("Desk"), await server.person()
    await keep_drafts(server, seat)
    watch, desk = Watcher(seat), Desk(rng)
    async with endpoint() as at:
        at.answers = [desk]
        url = f"{at.url}/v1" if provider == "openai" else at.url
        config = {"model": PROVIDERS[provider], "base_url": url, "compact_at_tokens": 6000}
        sent: list[str] = []
        async with living(server, seat, home(tmp_path / "ops", at, **config)):
            for number in range(turns):
                sent.append(await _send(person, peer, seat, number, rng))
                if rng.random() < 0.5:  # else the next message waits behind this one
                    await long(watch.drafts, lambda found: found.get(sent[-1], ("", ""))[1])
            await long(watch.waiting, lambda count: count == 0)
        found = {name: draft for name, (_, draft) in (await watch.drafts()).items()}
        assert at.refused == []
        assert [each for each in sent if not found.get(each, "").endswith("done")] == []
        assert turns // 10 <= desk.compactions == len(desk.after) <= turns, (desk.compactions, len(desk.after))
        for asked in at.asked:
            _check_request(asked, provider)
        for asked in desk.after:
            check_open_message(asked)


def check_open_message(asked: Asked) -> None:
    """The open message stays an item of its own in its own role, behind the summary."""
    messages = asked.body["messages"]
    place = next(number for number, each in enumerate(messages) if _has(each, SUMMARY))
    assert messages[place]["role"] == "assistant"
    rest = messages[place + 1 :]
    of_person = [each for each in rest if each["role"] == "user" and any("person Question" in _ for _ in _words(each))]
    of_peer = [each for each in rest if _has(each, "peer Question") and each["role"] in ("tool", "user")]
    assert len(of_person) + len(of_peer) == 1, messages
    if of_peer:
        assert INCOMING_TOOL in str(rest)
