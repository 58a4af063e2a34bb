"""Loops of agents end: a chain that runs into a limit is stopped once, and a person decides how it goes on."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient, ApiError
from molecule_core.common.limits import Limits
from testing.engines import Engine
from testing.message_chains import chains, events_of, loop, speak, take
from testing.running_server import Running, Seat, running
from tests.requirements import requirement

_FAR = 70


async def pair(server: Running) -> tuple[Seat, Seat, ApiClient, str]:
    """Two agents, a person, and their organisation. The first agent has a message of the person."""
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    one, other, person = await server.seat("One"), await server.seat("Other"), await server.person()
    await person.send(one.id, "begin")
    return one, other, person, org_id


@requirement("M30")
async def test_a_loop_of_agents_ends_after_24_hops_with_one_event(server: Running) -> None:
    one, other, person, org_id = await pair(server)

    ended = await loop(one, other, _FAR)

    assert (ended.sent, ended.refusal and ended.refusal["code"]) == (24, "chain_frozen")
    assert ended.refusal is not None and ended.refusal["reason"] == "hops"
    (chain,) = await chains(person, org_id)
    assert (chain["root_id"], chain["state"], chain["hops"]) == (ended.refusal["root_id"], "frozen", 24)
    (told,) = await events_of(server, org_id, "CHAIN_FROZEN")
    assert told == {"root_id": chain["root_id"], "workspace_id": one.id, "reason": "hops", "hops": 24, "messages": 24}


@requirement("M30")
async def test_without_the_limit_the_same_loop_goes_on(engine: Engine, place: str, tmp_path: Path) -> None:
    """The negative control: it is the limit that ends it."""
    async with running(engine, place, tmp_path, limits=Limits(chain_hops=10**6)) as server:
        one, other, person, org_id = await pair(server)
        ended = await loop(one, other, _FAR)
        assert (ended.sent, ended.refusal) == (_FAR, None)
        assert await chains(person, org_id, state="all") == []


@requirement("M30")
async def test_a_released_chain_goes_on_exactly_so_far_and_an_ended_one_never_again(server: Running) -> None:
    one, other, person, org_id = await pair(server)
    root_id = (await loop(one, other, _FAR)).refusal["root_id"]  # type: ignore[index]
    path = f"/orgs/{org_id}/chains/{root_id}"

    released = await person.post(f"{path}/release", {"messages": 7})
    assert (released["state"], released["most_messages"]) == ("released", 31)
    # Whose message was refused has acknowledged what it was about; it goes on with what it handled last.
    await speak(one, other.id, "where were we?")
    again = await loop(other, one, _FAR)
    assert (again.sent, again.refusal and again.refusal["reason"]) == (6, "hops")
    assert len(await events_of(server, org_id, "CHAIN_FROZEN")) == 2

    released = await person.post(f"{path}/release", {})
    assert (released["most_hops"], released["most_messages"]) == (31 + 24, 31 + 1000)
    ended = await person.post(f"{path}/end")
    assert (ended["state"], ended["decided_by"].split(":")[0]) == ("ended", "person")
    for seat, peer in ((one, other), (other, one)):
        with pytest.raises(ApiError) as over:
            await speak(seat, peer.id, "still there?")
        assert (over.value.status, over.value.is_transient) == (409, False)
    for verb in ("release", "end"):
        with pytest.raises(ApiError) as refused:
            await person.post(f"{path}/{verb}", {})
        assert refused.value.code == "chain_not_frozen"
    assert [len(await events_of(server, org_id, f"CHAIN_{name}")) for name in ("FROZEN", "RELEASED", "ENDED")] == [
        2,
        2,
        1,
    ]


@requirement("M30")
async def test_a_persons_next_message_begins_a_new_chain(server: Running) -> None:
    one, other, person, _ = await pair(server)
    await loop(one, other, _FAR)
    with pytest.raises(ApiError, match="429"):
        await one.api.post(f"/workspaces/{one.id}/notify", {"message": "it does not end"})

    await person.send(one.id, "something else")
    ended = await loop(one, other, 3)

    assert (ended.sent, ended.refusal) == (3, None)


@requirement("M30")
@pytest.mark.parametrize("text", ["Thanks! 🙏", "Gern geschehen", "👍"])
async def test_thanks_for_thanks_end_after_six(server: Running, text: str) -> None:
    one, other, person, org_id = await pair(server)
    await take(one)
    await speak(one, other.id, "the report is in the folder")

    ended = await loop(other, one, _FAR, text)

    assert (ended.sent, ended.refusal and ended.refusal["reason"]) == (6, "pingpong")
    (chain,) = await chains(person, org_id)
    assert chain["reason"] == "pingpong"


@requirement("M30")
async def test_a_refusal_speaks_json_rpc_and_says_when_to_come_again(server: Running) -> None:
    one, other, _, _ = await pair(server)
    await loop(one, other, _FAR)
    message: dict[str, Any] = {"role": "agent", "parts": [{"kind": "text", "text": "once more"}]}
    body = {"jsonrpc": "2.0", "id": "x", "method": "message/send", "params": {"message": message}}
    with pytest.raises(ApiError) as refused:
        await one.api.post(f"/workspaces/{other.id}/a2a", body)
    assert (refused.value.status, refused.value.problem["id"]) == (429, "x")
    assert refused.value.problem["error"]["data"][0]["reason"] == "CHAIN_FROZEN"
    message["messageId"] = "m1"
    told = await one.api.call("POST", f"/workspaces/{other.id}/a2a", body=body, headers={"A2A-Version": "0.3"})
    assert told["error"]["data"][0]["reason"] == "CHAIN_FROZEN"


@requirement("M30", "P2")
async def test_what_was_taken_before_the_freeze_is_answered_again_after_it(server: Running) -> None:
    one, other, _, _ = await pair(server)
    await take(one)
    body = {"params": {"message": {"messageId": "once", "parts": [{"kind": "text", "text": "hello"}]}}}
    first = await one.api.post(f"/workspaces/{other.id}/a2a", body)
    await loop(other, one, _FAR)
    assert (await one.api.post(f"/workspaces/{other.id}/a2a", body))["activity_id"] == first["activity_id"]


@requirement("M30")
async def test_rows_and_the_chain_itself_tell_the_lineage(server: Running) -> None:
    one, other, person, org_id = await pair(server)
    (first,) = await take(one)
    assert "root_id" not in first
    await speak(one, other.id, "second")
    (second,) = await take(other)
    assert (second["root_id"], second["hop"], second["cause_id"]) == (first["id"], 1, first["id"])
    await other.api.post(f"/workspaces/{other.id}/notify", {"message": "third", "in_reply_to": second["id"]})

    seen: list[Any] = []
    while len(seen) < 3:
        after = {"after": seen[-1]["no"]} if seen else {}
        page = await person.get(f"/orgs/{org_id}/chains/{first['id']}", limit=1, **after)
        seen += page["messages"]
        assert (page["chain"], len(page["messages"]), page["reached_end"]) == (None, 1, len(seen) == 3)
    assert [(each["no"], each["hop"], each["summary"]) for each in seen] == [
        (0, 0, "begin"),
        (1, 1, "second"),
        (2, 2, "third"),
    ]
    assert [each["source_name"] for each in seen] == [None, "One", "Other"]


@requirement("M30", "S8")
async def test_chains_of_another_organisation_are_unknown(server: Running) -> None:
    one, other, _, org_id = await pair(server)
    root_id = (await loop(one, other, _FAR)).refusal["root_id"]  # type: ignore[index]
    elsewhere = await server.org("Elsewhere")
    stranger = await server.person("owner", elsewhere)
    for method, path in (("GET", ""), ("POST", "/release"), ("POST", "/end")):
        for unknown in (root_id, "nobody", "%00"):
            with pytest.raises(ApiError) as refused:
                await stranger.call(method, f"/orgs/{elsewhere}/chains/{unknown}{path}", body={})
            assert (refused.value.status, refused.value.problem["code"]) == (404, "not_found")
    assert await chains(stranger, elsewhere, state="all") == []
    assert len(await chains(server.admin, org_id)) == 1


@requirement("M30")
async def test_chains_are_listed_by_state_newest_first_in_pages(server: Running) -> None:
    one, other, person, org_id = await pair(server)
    roots = [(await loop(one, other, _FAR)).refusal["root_id"]]  # type: ignore[index]
    for _ in range(2):
        await take(one)
        await take(other)
        await person.send(one.id, "again")
        roots.append((await loop(one, other, _FAR)).refusal["root_id"])  # type: ignore[index]
    await person.post(f"/orgs/{org_id}/chains/{roots[0]}/end")

    assert [each["root_id"] for each in await chains(person, org_id)] == roots[:0:-1]
    assert [each["root_id"] for each in await chains(person, org_id, state="ended")] == roots[:1]
    page = await person.get(f"/orgs/{org_id}/chains", state="all", limit=2)
    assert ([each["root_id"] for each in page["chains"]], page["reached_end"]) == (roots[:0:-1], False)
    page = await person.get(f"/orgs/{org_id}/chains", state="all", limit=2, before=roots[1])
    assert ([each["root_id"] for each in page["chains"]], page["reached_end"]) == (roots[:1], True)
