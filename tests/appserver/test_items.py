"""The fold of a log into items, by itself."""

from molecule_core.edges.appserver_items import ItemFold, LogLine
from molecule_core.wire.collabtools import COLLAB
from molecule_core.wire.threadlog import Collab, Entry, ToolCall, ToolOutput
from tests.requirements import requirement


@requirement("TH13")
def test_a_model_that_calls_a_collaboration_tool_makes_two_items_with_ids_of_their_own() -> None:
    call = Collab(call_id="c", tool="spawn", status="inProgress", sender_thread_id="t")
    entries: tuple[Entry, ...] = (
        ToolCall("c", COLLAB[0].name, {}),
        call,
        Collab(call_id="c", tool="spawn", status="failed", sender_thread_id="t", reason="full"),
        ToolOutput("c", "it is full", is_error=True),
    )
    fold = ItemFold()
    told = [each for n, entry in enumerate(entries, 1) for each in fold.tell(LogLine("t", n, "turn", n * 1000, entry))]
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
