"""Tasks of A2A outlive the process that took them: another one reads, streams and ends them."""

from pathlib import Path

import pytest

from testing.a2a_callers import A2ACaller, plain_state, texts
from testing.engines import Engine
from testing.running_server import Seat, running
from tests.requirements import requirement


@requirement("A2A3", "A2A5")
@pytest.mark.parametrize("delegates", [True, False])
async def test_a_task_and_its_stream_go_on_in_another_process(
    engine: Engine, place: str, tmp_path: Path, *, delegates: bool
) -> None:
    metadata = {"metadata": {"delegation": True}} if delegates else {}
    async with running(engine, place, tmp_path) as server:
        lead, ops = await server.seat("Lead"), await server.seat("Ops")
        client = A2ACaller(server, ops.id, lead.token)
        async with client.stream({**client.message("sort the mail"), **metadata}) as stream:
            first = await stream.event()
            assert first is not None and first.state == "submitted"
    task_id = first.id.rpartition(":")[0]

    async with running(engine, place, tmp_path) as server:
        client = A2ACaller(server, ops.id, lead.token)
        async with client.subscribed(task_id, first.id) as resumed:
            agent = Seat({"id": ops.id, "name": "Ops", "connection": {"auth_token": ops.token}}, server.api(ops.token))
            (given,) = await agent.api.get(f"/workspaces/{ops.id}/activity", claim=60, wait=0)
            said = {"in_reply_to": given["id"]}
            parts = [{"kind": "text", "text": "sorted"}]
            message = {"role": "agent", "parts": parts, "metadata": {**said, "intent": "inform"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
            await agent.api.post(f"/workspaces/{lead.id}/a2a", body)
            rest = await resumed.rest()
        assert [each.state for each in rest][-2:] == ["", "completed"] and rest[-2].text == "sorted"
        done = await client.get(task_id)
        assert (plain_state(done), texts(done["artifacts"][0]["parts"])) == ("completed", "sorted")
