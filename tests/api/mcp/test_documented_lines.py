"""docs/reference/mcp-endpoint.md: what it tells hosts to write leads them in."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.mcp_clients import ERAS, Era, hosted
from testing.raw_http import ask
from testing.running_server import Running
from tests.requirements import requirement

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "mcp-endpoint.md"
EXAMPLE = "https://molecule.example"
VARIABLE = "MOLECULE_WORKSPACE_TOKEN"
Headers = dict[str, str]


def block(heading: str) -> str:
    """The block of code below a heading."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.search(r"```\w+\n(.*?)```", section, re.DOTALL)
    assert found is not None, heading
    return found[1]


def _json(heading: str, pattern: str) -> tuple[str, Headers]:
    entry: dict[str, Any] = json.loads(block(heading))["mcpServers"]["molecule"]
    assert all(pattern in value for value in entry["headers"].values())
    return entry["url"], {name: value.replace(pattern, "{token}") for name, value in entry["headers"].items()}


def claude_code() -> tuple[str, Headers]:
    """As Claude Code reads its file."""
    return _json("Claude Code", "${" + VARIABLE + "}")


def cursor() -> tuple[str, Headers]:
    """As Cursor reads its file."""
    return _json("Cursor", "${env:" + VARIABLE + "}")


def codex() -> tuple[str, Headers]:
    """As Codex reads its file."""
    entry = tomllib.loads(block("Codex"))["mcp_servers"]["molecule"]
    assert entry["bearer_token_env_var"] == VARIABLE
    return entry["url"], {"Authorization": "Bearer {token}"}


@requirement("N1")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("read", [claude_code, codex, cursor], ids=["claude-code", "codex", "cursor"])
async def test_the_lines_for_a_host_lead_it_in(
    server: Running, era: Era, read: Callable[[], tuple[str, Headers]]
) -> None:
    ops = await server.seat("Ops")
    url, headers = read()
    assert url.startswith(EXAMPLE)
    sent = {name: value.format(token=ops.token) for name, value in headers.items()}
    async with hosted(server, "", era, url.removeprefix(EXAMPLE), sent) as host:
        found = await host.call("get_workspace_info")
    assert found["id"] == ops.id


@requirement("N1")
async def test_the_line_without_a_host_fetches_a_message(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    await person.send(ops.id, "hello by hand")
    words = shlex.split(block("Without a host").replace(f"${VARIABLE}", ops.token))
    assert words[:2] == ["curl", "-s"]
    url, pairs = words[2], list(zip(words[3::2], words[4::2], strict=True))
    headers = dict(value.split(": ", 1) for flag, value in pairs if flag == "-H")
    (body,) = [value for flag, value in pairs if flag == "-d"]
    reply = await ask(server.port, "POST", url.removeprefix(EXAMPLE), body.encode(), headers=headers)
    assert reply.json["result"]["structuredContent"]["message"]["text"] == "hello by hand"


def test_the_page_names_only_limits_that_exist() -> None:
    limits = (PAGE.parent / "limits.md").read_text(encoding="utf-8")
    named = re.findall(r"`(mcp_\w+)`", PAGE.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if f"MOLECULE_LIMIT_{name.upper()}`" not in limits] == []
