"""The stores that benchmarks fill by themselves are stores of today's schema, which a server opens and serves."""

import asyncio
from pathlib import Path

from benchmarks.big_store import WORKSPACES, fill, workspace_id
from benchmarks.company import fill_company
from benchmarks.servers import Place
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from molecule_core.store.sqlite.store import DATABASE_FILE
from testing.running_server import ADMIN_TOKEN
from tests.requirements import requirement

_AGENTS = 30


@requirement("A2")
async def test_a_company_of_the_benchmarks_is_online_with_its_work(tmp_path: Path) -> None:
    await asyncio.to_thread(fill_company, Place(tmp_path), _AGENTS)
    server = Server(Settings(state_dir=str(tmp_path)), admin_token=ADMIN_TOKEN)
    await server.open()
    try:
        (org,) = server.registry.orgs()
        pulses = [server.registry.last_heartbeat(each.id) for each in server.registry.all_with_removed(org.id)]
        assert len(pulses) == _AGENTS
        assert sum(each.active_tasks for each in pulses) == _AGENTS // 3
    finally:
        await server.close()


@requirement("A2")
async def test_a_filled_store_of_the_benchmarks_has_its_rows(tmp_path: Path) -> None:
    await asyncio.to_thread(fill, tmp_path / DATABASE_FILE, 2 * WORKSPACES, lambda _line: None)
    server = Server(Settings(state_dir=str(tmp_path)), admin_token=ADMIN_TOKEN)
    await server.open()
    try:
        rows = await server.store.rows("last_seq", {"key": workspace_id(7)})
        assert rows[0][0] == 2
    finally:
        await server.close()
