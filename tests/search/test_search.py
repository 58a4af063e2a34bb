"""The search over messages, delegations, threads and memories, as people use it."""

import pytest

from testing.search_world import SearchWorld, marked, texts
from testing.thread_world import Engine as ThreadEngine
from testing.thread_world import ThreadWorld, code, said
from testing.waits import bounded
from testing.workspaces import remove
from tests.requirements import requirement


@requirement("SE1")
async def test_each_kind_is_found_with_what_a_link_to_it_needs(world: SearchWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await world.writes(lead, "The kiwi launch is on Monday")
    await world.notifies(lead, "Noted: kiwi on Monday")
    await world.writes(ops, "Did the kiwi crates arrive?", by=lead)
    delegation_id = await world.delegates(lead, ops, "Count the kiwi crates")
    memory_id = await world.remembers(ops, "Kiwi crates are green")
    threads = ThreadWorld(world.server, world.operator, world.clock)
    thread = await threads.starts(ops, input="Peel one kiwi")
    engine = ThreadEngine(ops.api, thread)
    await engine.claim()
    await engine.begin()
    await engine.adds(said("A peeled kiwi"))
    await world.indexed()

    found = await world.finds("kiwi")
    assert texts(found) == [
        *sorted(["A peeled kiwi", "Peel one kiwi"], key=texts(found).index),
        "Kiwi crates are green",
        "Count the kiwi crates",
        "Did the kiwi crates arrive?",
        "Noted: kiwi on Monday",
        "The kiwi launch is on Monday",
    ]
    *items, memory, delegation, peer, notice, chat = found
    assert {each["id"] for each in items} == {thread["thread_id"]}
    assert {each["kind"] for each in items} == {"thread"} and all(each["ordinal"] > 0 for each in items)
    assert (memory["kind"], memory["id"], memory["workspace_id"]) == ("memory", memory_id, ops.id)
    assert (delegation["kind"], delegation["id"], delegation["workspace_id"]) == ("delegation", delegation_id, lead.id)
    assert [each["name"] for each in delegation["workspaces"]] == ["Lead", "Ops"]
    assert (peer["kind"], peer["workspace_id"], peer["in_chat"]) == ("message", ops.id, False)
    assert (notice["in_chat"], notice["workspace_id"]) == (True, lead.id)
    history = await world.operator.get(f"/workspaces/{lead.id}/chat-history")
    assert {notice["id"], chat["id"]} <= {each["id"] for each in history["messages"]}
    assert all(marked(each) in (["kiwi"], ["Kiwi"]) for each in found)
    assert (await world.page("kiwi"))["complete"] is True


@requirement("SE1")
async def test_the_answer_to_a_delegation_is_found_as_part_of_it(world: SearchWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    delegation_id = await world.delegates(lead, ops, "Count the crates")
    assert await world.finds("seventeen") == []
    await ops.api.get(f"/workspaces/{ops.id}/activity", claim=600, wait=0)
    parts = [{"kind": "text", "text": "There are seventeen"}]
    message = {"role": "agent", "parts": parts, "metadata": {"delegation_id": delegation_id}}
    sent = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    await bounded(ops.api.call("POST", f"/workspaces/{lead.id}/a2a", body=sent, headers={"x-timeout": "0"}))
    await world.indexed()
    (found,) = await world.finds("seventeen")
    assert (found["kind"], found["id"]) == ("delegation", delegation_id)
    assert found["snippet"]["text"] == "Count the crates There are seventeen"
    assert len(await world.finds("crates")) == 1


@requirement("SE1")
async def test_filters_and_pages_give_each_result_once_newest_first(world: SearchWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    for number in range(7):
        await world.writes(lead if number % 2 else ops, f"plum {number}")
    await world.remembers(ops, "plum pit")
    found, cursor = list[str](), None
    while True:
        page = await world.page("plum", limit=3, **({} if cursor is None else {"cursor": cursor}))
        found += texts(page["results"])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == ["plum pit", *(f"plum {number}" for number in reversed(range(7)))]
    assert texts(await world.finds("plum", workspace=lead.id)) == ["plum 5", "plum 3", "plum 1"]
    assert texts(await world.finds("plum", kind="memory")) == ["plum pit"]
    assert len(await world.finds("plum", kind="memory,message")) == 8
    times = [each["at"] for each in await world.finds("plum", kind="message")]
    assert texts(await world.finds("plum", since=times[2])) == ["plum pit", "plum 6", "plum 5", "plum 4"]
    assert texts(await world.finds("plum", until=times[4])) == ["plum 1", "plum 0"]
    assert texts(await world.finds("plum", since=times[4], until=times[3])) == ["plum 2"]


@requirement("SE1")
async def test_words_accents_prefixes_and_phrases(world: SearchWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.writes(ops, "Die Straße in KÖLN ist gesperrt")
    await world.writes(ops, "日本語の文書 is a document")
    await world.writes(ops, "deploy the blue green deployment now")
    strasse = ["Die Straße in KÖLN ist gesperrt"]
    for words in ("koln", "STRASSE köln", "gesp", "straß", '"strasse in koln"', "gesperrt die"):
        assert texts(await world.finds(words)) == strasse, words
    assert marked((await world.finds("koln strasse"))[0]) == ["Straße", "KÖLN"]
    assert texts(await world.finds("本語")) == ["日本語の文書 is a document"]
    assert texts(await world.finds('"blue green"')) == ["deploy the blue green deployment now"]
    for words in ('"green blue"', '"gesp"', "ge", "blue red", "gesperrtx"):
        assert await world.finds(words) == [], words


@requirement("SE1")
@pytest.mark.parametrize("words", ["", " ", '""', "!? *", "\x00"])
async def test_a_search_without_words_is_refused_with_advice(world: SearchWorld, words: str) -> None:
    assert await code(world.page(words)) == (400, "empty_search")
    with pytest.raises(Exception, match="Write a word or a number into q"):
        await world.page(words)


@requirement("SE1")
async def test_wrong_filters_are_refused(world: SearchWorld) -> None:
    assert await code(world.page("plum", kind="secrets")) == (422, "invalid_field")
    assert await code(world.page("plum", since="yesterday")) == (422, "invalid_field")
    assert await code(world.page("plum", cursor="x")) == (422, "invalid_field")
    assert await code(world.page("plum", workspace="x")) == (404, "not_found")


@requirement("SE1")
async def test_viewers_find_no_memories_and_agents_may_not_search(world: SearchWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.writes(ops, "plum in the message")
    await world.remembers(ops, "plum in the memory")
    assert texts(await world.finds("plum")) == ["plum in the memory", "plum in the message"]
    assert texts(await world.finds("plum", world.viewer)) == ["plum in the message"]
    assert (await code(world.page("plum", world.viewer, kind="memory")))[0] == 403
    assert (await code(world.page("plum", ops.api)))[0] == 403


@requirement("SE1")
async def test_nothing_of_another_organisation_is_found_and_its_id_reads_as_unknown(world: SearchWorld) -> None:
    other_org = await world.server.org("Other")
    ops = await world.server.seat("Ops")
    theirs = await world.server.seat("Theirs", org_id=other_org)
    stranger = await world.server.person("owner", other_org)
    await world.writes(ops, "our plum")
    await bounded(stranger.post(f"/workspaces/{theirs.id}/memories", {"content": "their plum"}))
    await world.indexed()
    assert texts(await world.finds("plum")) == ["our plum"]
    assert texts(await world.finds("plum", stranger, org_id=other_org)) == ["their plum"]
    unknown = await code(world.page("plum", stranger, org_id="nowhere"))
    assert await code(world.page("plum", stranger)) == unknown == (404, "not_found")
    assert await code(world.page("plum", workspace=theirs.id)) == (404, "not_found")


@requirement("SE2")
async def test_what_is_forgotten_or_removed_is_not_found(world: SearchWorld) -> None:
    ops, legal = await world.server.seat("Ops"), await world.server.seat("Legal")
    memory_id = await world.remembers(ops, "plum of ops")
    await world.remembers(legal, "plum of legal")
    await world.writes(legal, "plum for legal")
    await bounded(ops.api.call("DELETE", f"/workspaces/{ops.id}/memories/{memory_id}"))
    # Before the index follows, and after it has.
    assert texts(await world.finds("plum")) == ["plum for legal", "plum of legal"]
    await world.indexed()
    assert texts(await world.finds("plum")) == ["plum for legal", "plum of legal"]
    await remove(world.server.admin, legal)
    assert texts(await world.finds("plum")) == ["plum for legal"], "people may read its messages, not its memories"


async def documents(world: SearchWorld) -> int:
    """How many documents the index has."""
    rows = await world.server.server.store.rows("old_search_documents", {"no": -1, "before": 1 << 62, "count": 1000})
    return len(rows)


@requirement("SE2")
async def test_retention_deletes_the_documents_of_deleted_rows(world: SearchWorld) -> None:
    ops, legal = await world.server.seat("Ops"), await world.server.seat("Legal")
    await world.writes(ops, "old plum")
    await world.writes(legal, "plum for legal")
    await world.remembers(legal, "plum of legal")
    await world.remembers(ops, "plum that stays")
    for each in (ops, legal):
        await each.api.get(f"/workspaces/{each.id}/activity", claim=1, wait=0)
    before = await documents(world)
    await remove(world.server.admin, legal)
    await world.clock.advance(9 * 86_400)
    await world.writes(ops, "new plum")
    server = world.server.server
    for policy in server._retention._policies:
        async for batch in policy.batches(server._retention.cutoff, 100):
            if batch.command is not None:
                await server.store.run(batch.command)
    assert texts(await world.finds("plum")) == ["new plum", "plum that stays", "old plum"], "it was not acknowledged"
    assert await documents(world) < before + 1


@requirement("SE2")
async def test_a_running_server_indexes_by_itself(world: SearchWorld) -> None:
    ops = await world.server.seat("Ops")
    await bounded(world.operator.post(f"/workspaces/{ops.id}/memories", {"content": "a plum"}))
    for _ in range(20):
        await world.clock.advance(1)
        if await world.finds("plum"):
            break
    assert texts(await world.finds("plum")) == ["a plum"]


@requirement("SE2")
async def test_what_another_process_left_is_indexed_within_a_minute_however_busy_this_one_is(
    world: SearchWorld,
) -> None:
    ops = await world.server.seat("Ops")
    await world.clock.advance(1)
    indexer = world.server.server.search.indexer
    await bounded(world.operator.post(f"/workspaces/{ops.id}/memories", {"content": "a plum"}))
    indexer._behind.clear()  # the process that committed it ended before it could index it
    for _ in range(80):
        indexer.on_commit(["org:of-others"])
        await world.clock.advance(1)
        if await world.finds("plum"):
            break
    assert texts(await world.finds("plum")) == ["a plum"]
