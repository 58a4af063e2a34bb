"""Forty canary tokens at work, and then looked for in every answer, in the whole store and in every word."""

import hashlib
import logging
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest

from molecule_core.common.logs import TextFormatter
from molecule_core.messages.reader import MessageReader
from testing.engines import Engine
from testing.ports import free_port
from testing.processes import ANEW, LISTENS, MOLECULE, client, environment, started
from testing.raw_http import Reply, ask, wire
from testing.running_server import ADMIN_TOKEN, Running, running
from tests.requirements import requirement

UNKNOWN = "01900000-0000-7000-8000-000000000000"
# A hint may show the beginning of a token; what stands behind it is the secret.
HINT_LENGTH = 16


class Canaries(NamedTuple):
    """Tokens of a server, by whose they are, and all answers that were read after they had been made."""

    tokens: dict[str, str]
    answers: list[Reply]

    def found_in(self, text: str | bytes) -> list[str]:
        """Whose tokens stand in a text."""
        searched = text if isinstance(text, str) else text.decode("latin-1")
        return [name for name, token in self.tokens.items() if token[HINT_LENGTH:] in searched]


async def canaries_of(port: int, admin_token: str = ADMIN_TOKEN) -> Canaries:
    """Fills a server with 20 workspaces and 20 persons, and lets each of them do well and badly."""
    tokens, seats, answers = {"admin": admin_token}, [], []
    async with client(port, admin_token) as admin:
        (org, *_) = await admin.get("/orgs")
        for number in range(20):
            seat = await admin.post("/workspaces", {"name": f"Seat {number}"})
            role = ("viewer", "operator", "owner")[number % 3]
            person = await admin.post(f"/orgs/{org['id']}/people", {"name": f"Person {number}", "role": role})
            tokens[f"seat {number}"] = seat["connection"]["auth_token"]
            tokens[f"person {number}"] = person["auth_token"]
            seats.append(seat["id"])
    async with wire(port) as connection:
        for number, token in enumerate(tokens.values()):
            for method, path, body in calls(seats[max(number - 1, 0) // 2], org["id"]):
                answers.append(await connection.ask(method, path, body, token=token))
            for wrong in (token[:-1], token + "x", token.upper(), f"{token}, {token}"):
                answers.append(await connection.ask("GET", "/orgs", token=wrong))
    return Canaries(tokens, answers)


def calls(seat: str, org: str) -> list[tuple[str, str, Any]]:
    """What a holder of a token does; whether it may is another test's matter."""
    text = {"params": {"message": {"content": "hi"}}}
    return [
        ("POST", "/registry/register", {"id": seat, "agent_card": {"name": "x"}}),
        ("POST", "/registry/heartbeat", {"workspace_id": seat}),
        ("POST", f"/workspaces/{seat}/a2a", text),
        ("POST", f"/workspaces/{seat}/notify", {"message": "hi"}),
        ("POST", f"/workspaces/{seat}/a2a", b"{"),
        ("POST", f"/workspaces/{UNKNOWN}/a2a", text),
        ("GET", f"/workspaces/{seat}/activity?include=peer_info", None),
        ("GET", f"/workspaces/{seat}/activity?claim=1", None),
        ("GET", f"/workspaces/{seat}/chat-history", None),
        ("GET", f"/workspaces/{seat}", None),
        ("GET", "/workspaces", None),
        ("GET", f"/registry/{seat}/peers", None),
        ("GET", f"/registry/discover/{seat}", None),
        ("GET", f"/orgs/{org}/people", None),
        ("GET", f"/orgs/{org}/tree", None),
        ("GET", "/openapi.json", None),
        ("DELETE", f"/workspaces/{seat}", None),
    ]


async def everything_in(engine: Engine, place: str) -> str:
    """All that a store holds: the bytes of its files, or every row of every table."""
    if engine == "sqlite":
        return "".join(path.read_bytes().decode("latin-1") for path in Path(place).parent.glob("molecule.*"))
    connection = await asyncpg.connect(place)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        rows = [await connection.fetch(f"TABLE {name}") for (name,) in tables]
        return "\n".join(str(tuple(row)) for table in rows for row in table)
    finally:
        await connection.close()


@requirement("O3", "M7")
async def test_a_token_is_in_the_answer_that_makes_it_and_nowhere_else(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path) as server:
        canaries = await canaries_of(server.port)
        while_running = await everything_in(engine, place)
    afterwards = await everything_in(engine, place)

    assert len(canaries.tokens) > 40
    assert len(canaries.answers) > 800
    assert sum(reply.status < 400 for reply in canaries.answers) > 200
    assert [reply for reply in canaries.answers if canaries.found_in(reply.body + str(reply.headers).encode())] == []
    for content in (while_running, afterwards):
        assert canaries.found_in(content) == []
    hashed = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in canaries.tokens.items()}
    assert hashed.pop("admin") not in afterwards
    assert [name for name, each in hashed.items() if each not in afterwards] == []  # so it is here one would find them


@requirement("O3", "O1")
async def test_a_generated_admin_token_is_in_its_file_and_nowhere_else(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    env = environment(state, port)
    del env["MOLECULE_ADMIN_TOKEN"]
    async with started(*ANEW, "up", "--log-level", "debug", env=env) as server:
        await server.says(LISTENS)
        token = (state / "admin-token").read_text().strip()
        canaries = await canaries_of(port, token)
        said = b"".join(Path(f"/proc/{server.pid}/{name}").read_bytes() for name in ("cmdline", "comm")).decode()
        for verb in (("backup", str(tmp_path / "copy.db")), ("doctor",)):
            async with started(MOLECULE, *verb, env=env) as command:
                assert await command.ended() == 0
                said += command.said + await command.output()
        await server.kill()
        said += server.said + await server.output()

    assert token.startswith("mol_ad_")
    assert canaries.found_in(said) == []
    files = [path for path in (*state.rglob("*"), tmp_path / "copy.db") if path.is_file()]
    files.remove(state / "admin-token")
    assert len(files) > 2
    assert [path for path in files if canaries.found_in(path.read_bytes())] == []


@requirement("O3", "A3")
async def test_the_reference_of_a_mistake_of_ours_can_be_found_in_a_log_of_plain_text(
    server: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seat = await server.seat("Ops")

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"SELECT went wrong in /srv/molecule.db for {seat.token}")

    monkeypatch.setattr(MessageReader, "list_newest", broken)
    reply = await ask(server.port, "GET", f"/workspaces/{seat.id}/activity", token=seat.token)

    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    line = TextFormatter().format(record)
    assert (reply.status, reply.json["code"]) == (500, "unexpected")
    assert "went wrong in" in line
    assert seat.token not in line
    assert getattr(record, "reference", "-") in reply.error
    assert getattr(record, "reference", "-") in line
