"""Two real hosts of two makers in one organisation: a person asks one, which asks the other."""

import asyncio

from tests.interop.model_scripts import Asked, Call
from tests.interop.scene import Scene, answer_to, answers, waits
from tests.requirements import requirement

TASK = "Which river flows through Ulm?"


@requirement("X1")
async def test_claude_code_asks_codex_and_tells_the_person_what_it_said(lead: Scene, worker: Scene) -> None:
    def asks_the_worker(asked: Asked) -> Call:
        assert asked.last["message"]["text"] == TASK
        named = {"peer_id": worker.ops.seat.id, "text": TASK, "intent": "request"}
        return Call("reply_to_workspace", named)

    def tells_the_person(asked: Asked) -> Call:
        said = asked.last["message"]
        assert (said["kind"], said["peer_id"]) == ("peer_agent", worker.ops.seat.id)
        first = asked.results[0].value["message"]
        return Call("reply_to_workspace", {"activity_id": first["activity_id"], "text": f"It says: {said['text']}"})

    def acknowledges(asked: Asked) -> Call:
        return Call("inbox_pop", {"activity_id": asked.results[2].value["message"]["activity_id"]})

    activity_id = await lead.ops.writes(TASK)
    lead.configure()
    worker.configure()

    leads, works = await asyncio.gather(
        lead.run(waits, asks_the_worker, waits, tells_the_person, acknowledges), worker.run(waits, answers)
    )

    assert leads.went_well, leads.told
    assert works.went_well, works.told
    assert await lead.ops.chat() == [("user", TASK), ("agent", f"It says: {answer_to(TASK)}")]
    assert await worker.ops.chat() == []
    assert await lead.ops.became(activity_id) == ["stored", "in_inbox", "answered", "acked"]
