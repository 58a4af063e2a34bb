"""The fold of a log into items, by itself."""

from molecule_core.api.app_server.items import ItemBuilder, ThreadLogLine
from molecule_core.tools.collaboration_specs import COLLABORATION_TOOLS
from molecule_core.wire.schemas.thread_log import CollabCallEntry, ThreadEntry, ToolCallEntry, ToolOutputEntry
from tests.requirements import requirement


@requirement("TH13")
def test_a_model_that_calls_a_collaboration_tool_makes_two_items_with_ids_of_their_own() -> None:
    call = CollabCallEntry(call_id="c", tool="spawn", status="inProgress", sender_thread_id="t")
    entries: tuple[ThreadEntry, ...] = (
        ToolCallEntry("c", COLLABORATION_TOOLS[0].name, {}),
        call,
        CollabCallEntry(call_id="c", tool="spawn", status="failed", sender_thread_id="t", reason="full"),
        ToolOutputEntry("c", "it is full", is_error=True),
    )
    fold = ItemBuilder()
    told = [
        each
        for n, entry in enumerate(entries, 1)
        for each in fold.notifications_for(ThreadLogLine("t", n, "turn", n * 1000, entry))
    ]
    assert [(each.method, each.params["item"].id, each.params["item"].status) for each in told] == [
        ("item/started", "t.1", "inProgress"),
        ("item/started", "c", "inProgress"),
        ("item/completed", "c", "failed"),
        ("item/completed", "t.1", "failed"),
    ]
    assert [(each.params["item"].started_at_ms, each.params["item"].completed_at_ms) for each in told[2:]] == [
        (2000, 3000),
        (1000, 4000),
    ]
