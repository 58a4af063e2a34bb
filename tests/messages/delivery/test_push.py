"""Messages to agents that are pushed to: the answer, the receipt, the order, and what an agent's words end up as."""

import asyncio
import socket
from pathlib import Path

import pytest

from molecule_core.client.api import ApiError
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.push_agents import HttpAgent, http_agent, plain, said
from testing.running_server import Running, running
from testing.waits import bounded, eventually, refused
from testing.workspaces import beat
from tests.messages.delivery.push_server import URL, PushServer
from tests.requirements import requirement


@requirement("M14", "M21")
async def test_a_sender_gets_the_agents_own_answer_under_its_own_id(post: PushServer) -> None:
    post.net.answers(URL, said("done"))

    answer = await post.say("hi", patience=20)

    (pushed,) = post.net.pushed
    assert answer["id"] == "mine"
    assert answer["result"]["parts"] == [{"kind": "text", "text": "done"}]
    assert pushed.text == "hi"
    assert pushed.attempt == 1
    assert pushed.headers["idempotency-key"] == pushed.activity
    assert "authorization" not in pushed.headers
    found = await post.queue(pushed.activity)
    assert (found["status"], found["attempts"]) == ("completed", 1)
    assert found["response_body"]["result"]["parts"][0]["text"] == "done"
    assert "tokens" not in str(pushed.headers)


@requirement("M14")
async def test_an_answer_to_a_person_stands_in_their_chat_once(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    await post.say("hi", patience=20)

    page = await post.person.get(f"/workspaces/{post.ops.id}/chat-history")

    assert [(line["role"], line["content"]) for line in page["messages"]] == [("user", "hi"), ("agent", "done")]


@requirement("M14")
async def test_an_agents_error_is_told_and_the_message_is_not_pushed_again(post: PushServer) -> None:
    post.net.answers(URL, plain(200, jsonrpc="2.0", id=1, error={"code": -32000, "message": "I cannot"}))

    answer = await post.say("hi", patience=20)

    assert answer["error"] == {"code": -32000, "message": "I cannot"}
    found = await post.queue(post.net.pushed[0].activity)
    assert (found["status"], found["last_error"]) == ("failed", "I cannot")
    await post.clock.advance(600)
    await post.quiet()
    assert len(post.net.pushed) == 1


@requirement("M14")
async def test_json_that_is_no_json_rpc_becomes_the_result_and_nothing_is_an_empty_one(post: PushServer) -> None:
    post.net.answers(URL, plain(200, ok=True), (204, {}, b""))

    assert (await post.say("one", patience=20))["result"] == {"ok": True}
    assert (await post.say("two", patience=20))["result"] == {}


@requirement("M14")
async def test_a_sender_whose_patience_ends_gets_a_receipt_and_finds_the_answer_later(post: PushServer) -> None:
    gate = post.net.hangs(URL)
    waiting = asyncio.create_task(post.say("hi", patience=3))
    await post.until_pushed(1)
    await post.clock.advance(3.1)

    receipt = await bounded(waiting)

    assert receipt["queued"] is True
    assert receipt["delivery_mode"] == "push-async"
    assert receipt["result"]["status"]["state"] == "submitted"
    assert receipt["activity_id"] == receipt["queue_id"] == post.net.pushed[0].activity
    assert (await post.queue(receipt["queue_id"]))["status"] == "dispatched"
    gate.set()
    found = await post.stands(receipt["queue_id"], "completed")
    assert found["response_body"]["result"]["parts"][0]["text"] == "at last"


@requirement("M7", "M14")
async def test_a_sender_whose_token_is_revoked_while_it_waits_does_not_get_the_answer(post: PushServer) -> None:
    gate, lead = post.net.hangs(URL), await post.server.seat("Lead")
    tokens = f"/workspaces/{lead.id}/tokens"
    body = {"params": {"message": {"role": "user", "parts": [{"kind": "text", "text": "hi"}]}}}
    asking = lead.api.call("POST", f"/workspaces/{post.ops.id}/a2a", body=body, headers={"x-timeout": "60"})
    waiting = asyncio.create_task(refused(asking))
    await post.until_pushed(1)
    (token,) = await post.server.admin.get(tokens)
    await post.server.admin.call("DELETE", f"{tokens}/{token['id']}")
    gate.set()

    error = await bounded(waiting)

    assert (error.status, error.code) == (401, "invalid_credential")
    await post.stands(post.net.pushed[0].activity, "completed")


@requirement("M14", "M22")
async def test_a_sender_to_a_busy_agent_gets_a_receipt_at_once(post: PushServer) -> None:
    post.net.answers(URL, plain(503, busy=True))

    receipt = await bounded(post.say("hi", patience=300))

    assert (receipt["queued"], receipt["queue_depth"], receipt["delivery_mode"]) == (True, 1, "push")


@requirement("M14")
async def test_the_same_message_again_gets_the_same_answer_and_is_not_pushed_again(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    message = {"role": "user", "messageId": "m-1", "parts": [{"kind": "text", "text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}

    first = await post.person.post(f"/workspaces/{post.ops.id}/a2a", body)
    again = await post.person.post(f"/workspaces/{post.ops.id}/a2a", {**body, "id": 2})

    assert first["result"] == again["result"]
    assert (first["id"], again["id"]) == (1, 2)
    assert len(post.net.pushed) == 1


@requirement("M14")
@pytest.mark.parametrize("patience", ["soon", "30s", "1.5", "-1"])
async def test_a_patience_that_is_no_number_of_seconds_is_refused_and_nothing_is_delivered(
    post: PushServer, patience: str
) -> None:
    post.net.answers(URL, said("done"))
    message = {"role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    headers = {"x-timeout": patience}

    error = await refused(post.person.call("POST", f"/workspaces/{post.ops.id}/a2a", body=body, headers=headers))

    assert (error.status, error.code) == (422, "invalid_field")
    await post.say("the same, corrected", patience=20)
    assert [each.text for each in post.net.pushed] == ["the same, corrected"]


@requirement("M21", "M37")
async def test_a_broadcast_is_pushed_to_who_is_pushed_to(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    lead = await post.server.seat("Lead")
    await post.server.let_broadcast(lead.id)
    await post.quiet()

    answer = await lead.api.post(f"/workspaces/{lead.id}/broadcast", {"message": "All hands"})

    assert (answer["delivered"], answer["skipped"]) == (1, [])
    await post.until_pushed(1)
    (pushed,) = post.net.pushed
    assert (pushed.text, pushed.attempt) == ("All hands", 1)
    await post.stands(pushed.activity, "completed")


@requirement("M21", "M22")
async def test_a_flood_arrives_in_order_one_at_a_time_each_once(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    ids = [await post.ask(str(number)) for number in range(20)]
    await post.stands(ids[-1], "completed")

    assert [each.text for each in post.net.pushed] == [str(number) for number in range(20)]
    assert [each.activity for each in post.net.pushed] == ids
    assert post.net.most_under_way == 1


@requirement("M22")
async def test_an_agent_with_room_for_three_gets_three_at_once(post: PushServer) -> None:
    gate = post.net.hangs(URL)
    await post.person.call("PATCH", f"/workspaces/{post.ops.id}", body={"max_concurrent_tasks": 3})
    ids = [await post.ask(str(number)) for number in range(5)]
    await post.until_pushed(3)
    await post.clock.advance(10)

    assert [each.text for each in post.net.pushed] == ["0", "1", "2"]
    gate.set()
    await post.stands(ids[-1], "completed")
    assert sorted(each.text for each in post.net.pushed) == ["0", "1", "2", "3", "4"]


@requirement("M21")
async def test_mail_from_before_an_agent_was_one_to_push_to_is_pushed(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    queued = await post.say("before", to=seat)
    url = "https://other.example/"
    post.net.answers(url, said("done"))

    await seat.api.post(
        "/registry/register", {"id": seat.id, "agent_card": {"name": "x"}, "delivery_mode": "push", "url": url}
    )

    await post.stands(queued["activity_id"], "completed", seat=seat)
    assert [each.text for each in post.net.of(url)] == ["before"]


# -- over a real connection --------------------------------------------------------------------------------------------


@requirement("M21", "P1")
async def test_a_real_agent_on_loopback_answers(engine: Engine, place: str, tmp_path: Path) -> None:
    async with (
        http_agent(HttpAgent()) as agent,
        running(engine, place, tmp_path, push_networks=("127.0.0.0/8",)) as server,
    ):
        seat = await server.seat("Ops", url=agent.url)
        person = await server.person()

        answer = await bounded(person.send(seat.id, "hello"))

    assert answer["result"]["parts"][0]["text"] == "re: hello"
    assert agent.pushed[0].body["params"]["message"]["metadata"]["kind"] == "canvas_user"
    assert agent.pushed[0].attempt == 1


@requirement("M21")
async def test_a_real_agent_that_is_not_there_yet_gets_its_mail_when_it_is(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    agent = HttpAgent()
    with socket.socket() as held:  # a port that is taken, and where nobody listens yet
        held.bind(("127.0.0.1", 0))
        agent.port = held.getsockname()[1]
        async with running(engine, place, tmp_path, clock=clock, push_networks=("127.0.0.0/8",)) as server:
            seat = await server.seat("Ops", url=agent.url)
            person = await server.person()
            receipt = await bounded(person.send(seat.id, "hello"))
            assert receipt["queued"] is True

            async with await asyncio.start_server(agent.serve, sock=held):
                await clock.advance(301)

                async def arrived() -> int:
                    await clock.advance(0)
                    return len(agent.pushed)

                await eventually(arrived, lambda count: count == 1)
            assert agent.pushed[0].text == "hello"
            assert agent.pushed[0].attempt > 1


# -- how an agent becomes one ------------------------------------------------------------------------------------------


@requirement("M21")
async def test_push_needs_a_url_and_poll_keeps_none(server: Running) -> None:
    seat = await server.seat("Ops")
    card = {"id": seat.id, "agent_card": {"name": "x"}}
    for refusal in (
        await refused(server.admin.post("/workspaces", {"name": "P", "delivery_mode": "push"})),
        await refused(seat.api.post("/registry/register", {**card, "delivery_mode": "push"})),
        await refused(server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"delivery_mode": "push"})),
    ):
        assert (refusal.status, refusal.problem["error"]) == (
            400,
            "url is required for push-mode workspaces. Send url, or set delivery_mode to poll.",
        )
    polls = {**card, "delivery_mode": "poll", "url": "https://93.184.216.34/"}
    assert (await seat.api.post("/registry/register", polls))["delivery_mode"] == "poll"
    assert (await seat.api.get(f"/workspaces/{seat.id}"))["url"] is None
    assert (await refused(seat.api.post("/registry/register", {**card, "delivery_mode": "fax"}))).status == 422


@requirement("M21")
async def test_what_was_said_last_about_delivery_stays_so(post: PushServer) -> None:
    card = {"id": post.ops.id, "agent_card": {"name": "x"}}
    assert (await post.ops.api.post("/registry/register", card))["delivery_mode"] == "push"
    moved = {**card, "delivery_mode": "push", "url": "https://new.example/"}
    await post.ops.api.post("/registry/register", moved)
    await post.ops.api.post("/registry/register", card)
    assert (await post.ops.api.get(f"/workspaces/{post.ops.id}"))["url"] == "https://new.example/"
    view = await post.person.call("PATCH", f"/workspaces/{post.ops.id}", body={"delivery_mode": "poll"})
    assert (view["delivery_mode"], view["url"]) == ("poll", None)


@requirement("M21")
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://169.254.169.254/", "https://[::1]/", "file:///etc"])
async def test_a_url_that_leads_inside_is_not_kept(server: Running, url: str) -> None:
    seat = await server.seat("Ops")
    card = {"id": seat.id, "agent_card": {"name": "x"}, "delivery_mode": "push", "url": url}
    for refusal in (
        await refused(server.admin.post("/workspaces", {"name": "P", "url": url})),
        await refused(seat.api.post("/registry/register", card)),
        await refused(server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"delivery_mode": "push", "url": url})),
    ):
        assert isinstance(refusal, ApiError)
        assert refusal.code == "unsafe_url"
    assert (await seat.api.get(f"/workspaces/{seat.id}"))["delivery_mode"] == "poll"


@requirement("M22")
async def test_a_heartbeat_of_an_agent_without_mail_changes_nothing(post: PushServer) -> None:
    await beat(post.ops, active_tasks=0)
    await post.quiet()
    assert post.net.pushed == []
