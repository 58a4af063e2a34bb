"""Every process has all templates in memory. None of them decides on what another has changed since."""

import asyncio
from pathlib import Path
from typing import Any

from molecule_core.instructions import builtin_templates
from testing.running_server import Running
from testing.waits import eventually, refused
from tests.instructions.template_requests import TERSE
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import deafen, servers


async def paths(server: Running) -> str:
    """Where the first organisation's templates are."""
    return f"/orgs/{(await server.admin.get('/orgs'))[0]['id']}/instruction-templates"


async def save(server: Running, template_id: str, parts: dict[str, Any], **more: Any) -> Any:
    """A new version."""
    path = f"{await paths(server)}/{template_id}"
    return await server.admin.call("PUT", path, body={"parts": parts, **more})


@requirement("I12", "M38")
async def test_what_one_process_saves_another_speaks_with_after_the_wake_up(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path) as (one, other):
        seat = await one.seat("Ops")
        await save(one, "generic-mcp-default", {"blocks": {"reply": "Ours.", "compact": "Ours."}}, extends=None)
        path = f"{await paths(other)}/preview"

        async def said() -> str:
            return str((await other.admin.post(path, {"workspace_id": seat.id}))["text"])

        assert await eventually(said, lambda text: text == "Ours.")
        await one.admin.call("DELETE", f"{await paths(one)}/generic-mcp-default")
        await eventually(said, lambda text: text.startswith("This Molecule message"))


@requirement("I5", "I6", "M38")
async def test_each_decides_on_what_the_other_saved_with_no_wake_up_at_all(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path) as (one, other):
        deafen(one, other)
        assert (await save(one, "a", TERSE))["template"]["version"] == 1
        assert (await save(other, "a", TERSE))["template"]["version"] == 2
        await save(one, "b", TERSE, extends="a")
        assert "in a circle" in (await refused(save(other, "a", TERSE, extends="b"))).problem["reason"]
        assert (await refused(other.admin.call("DELETE", f"{await paths(other)}/a"))).code == "template_in_use"


@requirement("I5", "M38")
async def test_processes_that_start_at_once_put_the_templates_there_once(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path, count=3) as opened:
        await asyncio.gather(*(each.server.instructions.writer.seed_builtin_templates() for each in opened))
        for each in opened:
            rows = await each.admin.get(await paths(each))
            assert [row["template"]["version"] for row in rows] == [builtin_templates.BUILT_IN_VERSION] * 3
        assert len(await opened[0].server.store.rows("all_templates", {})) == 3
