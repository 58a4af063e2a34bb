"""The shortest journey: a message goes in, a polling agent gets it, its answer comes out."""

from testing.running_server import Running


async def test_a_person_writes_and_a_polling_agent_answers(server: Running) -> None:
    ops = await server.seat("Ops")
    await ops.api.post("/registry/register", {"id": ops.id, "delivery_mode": "poll", "agent_card": {"name": "Ops"}})
    person = await server.person()

    receipt = await person.send(ops.id, "hi", message_id="m-1")
    (row,) = await ops.api.claim(ops.id)
    await ops.api.post(f"/workspaces/{ops.id}/notify", {"message": "hello yourself"})
    await ops.api.ack(ops.id, row)

    assert row["id"] == receipt["activity_id"]
    assert row["kind"] == "canvas_user"
    chat = await person.get(f"/workspaces/{ops.id}/chat-history")
    assert [(line["role"], line["content"]) for line in chat["messages"]] == [
        ("user", "hi"),
        ("agent", "hello yourself"),
    ]
