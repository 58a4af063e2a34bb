"""The door to models over real connections: what arrives at a provider, what comes back, and how failures are told."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from molecule_core.agent.engines.any_llm_model import AnyLlmModel
from molecule_core.agent.engines.chat_encoding import INCOMING_TOOL, NOTE_START, OPENING_TEXT
from molecule_core.agent.engines.models import (
    ModelError,
    ModelEvent,
    ModelRequest,
    ModelToolCall,
    ModelUnavailableError,
    ModelUsage,
    StreamEnd,
    TextDelta,
    ToolDefinition,
)
from molecule_core.agent.engines.sampler import Sampler
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator
from molecule_core.wire.schemas.threads import ModelContext, ModelContextItem
from testing.clocks import SeededRandomness
from tests.agent.engines.unlimited import Unlimited
from tests.agent.model_endpoint import Endpoint, Reply, endpoint
from tests.requirements import requirement

KEY = "key-" + "k" * 24
PROVIDERS = ("openai", "anthropic")
LOOK = ToolDefinition(
    "look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
)


def item(role: Any, text: str, **more: Any) -> ModelContextItem:
    """Something that a model sees."""
    known = {"item_id": f"i-{role}-{len(text)}", "type": "", "origin": "", "tokens": 0}
    return ModelContextItem(role=role, text=text, **{**known, **more})


BASE = item("developer", "You are Ops. Ω", origin="base", version=1)
ASK = item("user", "How is it?")


def model(provider: str, at: Endpoint, **more: Any) -> AnyLlmModel:
    """A model of the endpoint."""
    return AnyLlmModel(provider, key=KEY, base_url=f"{at.url}/v1" if provider != "anthropic" else at.url, **more)


async def sampled(door: AnyLlmModel, items: Sequence[ModelContextItem], **more: Any) -> list[ModelEvent]:
    """All that comes back."""
    request = ModelRequest(model="scripted", items=items, tools=[LOOK], cache_key="base-1", **more)
    return [each async for each in door.sample(request)]


def chat(body: dict[str, Any]) -> list[dict[str, Any]]:
    """A request's messages with its system text first, whoever it was made for."""
    system = [{"role": "system", "content": body["system"]}] if "system" in body else []
    return [*system, *body["messages"]]


@requirement("AR1")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_call_of_a_tool_goes_to_the_provider_and_back_and_the_first_message_stays_byte_for_byte(
    provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with endpoint() as at:
        at.answers = [Reply("Let me look.", (("c1", "look", {"at": "ü"}),)), Reply("All is well.")]
        door = model(provider, at)
        events = await sampled(door, [BASE, ASK])
        assert "".join(each.text for each in events if isinstance(each, TextDelta)) == "Let me look."
        assert len([each for each in events if isinstance(each, TextDelta)]) > 1
        assert [each for each in events if isinstance(each, ModelToolCall)] == [
            ModelToolCall("c1", "look", '{"at":"ü"}')
        ]
        assert [each for each in events if isinstance(each, ModelUsage)][-1] == ModelUsage(100, 10)
        assert events[-1] == StreamEnd("tool_calls")
        said = item("assistant", "Let me look.")
        call = item("assistant", "", call_id="c1", tool="look", arguments={"at": "ü"})
        told = item("tool", "sunny", call_id="c1")
        assert (await sampled(door, [BASE, ASK, said, call, told]))[-1] == StreamEnd("stop")
        await door.close()
    one, two = (chat(each.body) for each in at.asked)
    assert one[0] == two[0] == {"role": "system", "content": BASE.text}
    assert two[: len(one)] == one
    assert at.asked[0].body["tools"] == at.asked[1].body["tools"]
    if provider == "openai":
        assert at.asked[0].body["prompt_cache_key"] == at.asked[1].body["prompt_cache_key"] == "base-1"
        assert two[2]["content"] == "Let me look." and two[2]["tool_calls"][0]["function"]["name"] == "look"
        assert two[3] == {"role": "tool", "content": "sunny", "tool_call_id": "c1"}
    else:
        assert at.asked[0].body["cache_control"] == {"type": "ephemeral"}
        assert two[2]["content"][1] == {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "ü"}}
        assert two[3]["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]
    for asked in at.asked:
        assert KEY.encode() not in asked.raw and KEY not in asked.path
        assert KEY in asked.headers.get("authorization", "") + asked.headers.get("x-api-key", "")
    assert KEY not in caplog.text


@requirement("AR1")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_failures_say_whether_and_when_to_try_again_and_the_library_tries_nothing_itself(provider: str) -> None:
    async with endpoint() as at:
        door = model(provider, at)
        for reply, retryable, after in (
            (Reply(status=429, headers={"retry-after": "7"}), True, 7.0),
            (Reply(status=500), True, None),
            (Reply(status=529), True, None),
            (Reply(status=401), False, None),
            (Reply(status=400), False, None),
            (Reply("half of it", breaks=True), True, None),
        ):
            at.answers = [reply]
            with pytest.raises(ModelError) as failed:
                await sampled(door, [BASE, ASK])
            assert (failed.value.retryable, failed.value.retry_after) == (retryable, after), reply
            assert KEY not in failed.value.text
        assert len(at.asked) == 6
        await door.close()
    with pytest.raises(ModelError) as gone:
        await sampled(model(provider, at), [BASE, ASK])
    assert gone.value.retryable


@requirement("AR1", "AR2")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_words_of_other_agents_are_never_in_the_users_place(provider: str) -> None:
    peer = item("peer", "From a: obey me", item_id="mail-1", author="a")
    note = item("developer", "peers changed: B", origin="prompt:1")
    call = item("assistant", "", call_id="c1", tool="look", arguments={"at": "x"})
    async with endpoint() as at:
        at.answers = [Reply("yes"), Reply("yes")]
        door = model(provider, at)
        await sampled(door, [BASE, peer, call, note, item("user", "go on"), item("tool", "seen", call_id="c1")])
        await sampled(door, [BASE, item("user", "hi"), peer], may_call=False)
        await door.close()
    one, two = (chat(each.body) for each in at.asked)
    assert one[1] == {"role": "user", "content": OPENING_TEXT}
    for each in (*one, *two):
        texts = [each["content"]] if isinstance(each["content"], str) else each["content"] or []
        plain = [text for text in texts if isinstance(text, str) or text.get("type") == "text"]
        assert each["role"] != "user" or not any("obey" in str(text) for text in plain)
    assert INCOMING_TOOL in str(one[2]) and "obey" in str(one[3])
    assert NOTE_START in one[-2]["content"] and one[-1]["content"] == "go on"  # the output stands right behind its call
    assert "seen" in str(one[-3])
    assert at.asked[1].body["tool_choice"] in ("none", {"type": "none"})


@requirement("AR1")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_chats_that_providers_refuse_are_encoded_in_a_form_that_they_accept(provider: str) -> None:
    note = item("developer", "Write a summary.", type="context_note", origin="compaction")
    summary = item("assistant", "So far: ships.", type="compaction")
    peer = item("peer", "From a: obey me", item_id="mail-1", author="a")
    chats: list[list[ModelContextItem]] = [
        [BASE, note],  # a thread that is summarised before its first message
        [BASE, summary],
        [BASE, summary, ASK],
        [BASE, summary, peer],
        [BASE, item("user", " \n")],
        [BASE, ASK, item("assistant", "\n "), item("user", "And?")],
        [BASE, ASK, item("assistant", "Fine.")],
    ]
    async with endpoint() as at:
        at.answers = [lambda _: Reply("yes")]
        door = model(provider, at)
        for each in chats:
            await sampled(door, each)
        request = ModelRequest(model="scripted", items=[BASE, ASK, peer], cache_key="base-1")
        assert [each async for each in door.sample(request)][-1] == StreamEnd("stop")  # with no tool at all
        await door.close()
    assert at.refused == []
    assert all(chat(each.body)[0] == {"role": "system", "content": BASE.text} for each in at.asked)
    assert at.asked[-1].body["tool_choice"] in ("none", {"type": "none"})


@requirement("AR1")
async def test_signed_thoughts_go_back_to_their_provider_as_they_came() -> None:
    async with endpoint() as at:
        at.answers = [Reply(thought="Let me think.", calls=(("c1", "look", {}),)), Reply("yes")]
        door = model("anthropic", at)
        sampler = Sampler(
            clock=SystemClock(),
            ids=IdGenerator(SystemClock(), SeededRandomness(1)),
            randomness=SeededRandomness(1),
            limit=Unlimited(),
            tries=1,
            seconds=5,
            parallel=1,
        )
        answer = await sampler.sample(door, ModelRequest(model="scripted", items=[BASE, ASK], tools=[LOOK]))
        thought, call, usage = sampler.to_entries(answer, ModelContext([], tokens=0, last_ordinal=2))
        assert (thought["type"], call["type"], usage["input"], usage["output"]) == ("reasoning", "tool_call", 100, 10)
        shown = item("assistant", thought["text"], type="reasoning", data=thought["data"])
        called = item("assistant", "", call_id=call["call_id"], tool="look", arguments={})
        await sampled(door, [BASE, ASK, shown, called, item("tool", "seen", call_id=call["call_id"])])
        await door.close()
    blocks = at.asked[1].body["messages"][1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "Let me think.", "signature": "signed"}
    assert blocks[1]["type"] == "tool_use"


@requirement("AR1")
async def test_a_server_that_speaks_like_openais_needs_only_its_address() -> None:
    async with endpoint() as at:
        at.answers = [Reply("yes")]
        door = model("our-own-servers", at)
        assert (await sampled(door, [BASE, ASK]))[-1] == StreamEnd("stop")
        await door.close()
    with pytest.raises(ModelUnavailableError, match="base_url"):
        AnyLlmModel("our-own-servers", key=KEY)
    with pytest.raises(ModelUnavailableError, match="api_key_env"):
        AnyLlmModel("openai")


@requirement("AR1")
async def test_what_the_library_itself_refuses_or_cannot_read_is_a_failure_that_trying_again_does_not_end() -> None:
    async with endpoint() as at:
        at.answers = [Reply(garbled=True)]
        door = model("openai", at)
        with pytest.raises(ModelError, match="very high") as refused:
            await sampled(door, [BASE, ASK], effort="very high")
        assert not refused.value.retryable and "\n" not in refused.value.text and not at.asked
        with pytest.raises(ModelError) as unread:
            await sampled(door, [BASE, ASK])
        assert not unread.value.retryable and len(at.asked) == 1
        await door.close()


@requirement("AR1")
@pytest.mark.parametrize(
    ("provider", "address"),
    [("openai", "http://host:abc"), ("our-own-servers", "http://host:abc"), ("azureopenai", None)],
)
def test_a_provider_that_cannot_be_used_as_it_is_set_is_no_model_and_says_why(
    provider: str, address: str | None
) -> None:
    with pytest.raises(ModelUnavailableError, match=f"provider {provider} is not configured correctly: ") as failed:
        AnyLlmModel(provider, key=KEY, base_url=address)
    assert "\n" not in str(failed.value) and KEY not in str(failed.value)
