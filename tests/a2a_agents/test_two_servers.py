"""A workspace of one Molecule is the agent of a workspace of another one: our client speaks to our server."""

from pathlib import Path
from typing import Any

import pytest

from testing.running_server import running
from testing.waits import eventually


@pytest.fixture
def engine() -> str:
    """Two servers with a store each: SQLite."""
    return "sqlite"


async def test_a_delegation_crosses_two_servers_and_its_result_comes_back(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    more: dict[str, Any] = {"push_networks": ("127.0.0.0/8",), "push_instructions_enabled": True}
    async with (
        running(
            "sqlite", str(tmp_path / "two" / "m.db"), tmp_path / "two", seed=2, push_instructions_enabled=True
        ) as far,
        running("sqlite", str(tmp_path / "one" / "m.db"), tmp_path / "one", **more) as near,
    ):
        worker = await far.seat("Worker")
        org_id = (await far.admin.get("/orgs"))[0]["id"]
        guest = await far.admin.post(f"/orgs/{org_id}/people", {"name": "Guest", "role": "operator"})
        await far.admin.call("PATCH", f"/workspaces/{worker.id}", body={"a2a_published": True})
        lead = await near.seat("Lead")
        url = f"{far.url}/workspaces/{worker.id}/.well-known/agent-card.json"
        credential = {"kind": "bearer", "secret": guest["auth_token"]}
        remote = await near.seat("Remote", a2a_card_url=url, a2a_credential=credential)
        body = {"target_id": remote.id, "task": "sort the mail", "wait": 0}
        begun = await lead.api.post(f"/workspaces/{lead.id}/delegate", body)

        async def arrived() -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = await worker.api.get(
                f"/workspaces/{worker.id}/activity", claim=60, wait=0, include="instructions"
            )
            return rows

        (row,) = await eventually(arrived, bool, 20)
        await worker.api.post(
            f"/workspaces/{worker.id}/reply", {"handle": row["instructions"]["reply_handle"], "text": "sorted"}
        )

        async def ended() -> dict[str, Any]:
            found: dict[str, Any] = await lead.api.get(f"/delegations/{begun['delegation_id']}")
            return found

        found = await eventually(ended, lambda each: each["delegation"]["status"] in ("completed", "failed"), 40)
    assert (found["delegation"]["status"], found["result"]) == ("completed", "sorted")
