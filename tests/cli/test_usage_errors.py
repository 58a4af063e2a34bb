"""What a person mistypes or forgets is one line that says what to do, with an exit code, and never a traceback."""

from pathlib import Path

import pytest

from molecule_core.client.api import ApiClient, NoAnswerError
from molecule_core.client.one_shot import get_json
from testing.ports import free_port
from testing.processes import MOLECULE, environment, serving, started
from tests.other_servers import other_server
from tests.requirements import requirement

AGENT = {"WORKSPACE_ID": "w-1", "MOLECULE_WORKSPACE_TOKEN": "a-token"}


async def refused(folder: Path, *args: str, **env: str) -> tuple[int, str]:
    """The exit code of a command that does nothing, and the line that it says."""
    own = environment(folder / "state", free_port(), HOME=str(folder), **env)
    async with started(MOLECULE, *args, env=own) as process:
        code = await process.ended()
        out, (line,) = await process.output(), process.said.splitlines()
    assert out == "" and line.startswith("molecule")
    return code, line


@requirement("O1")
@pytest.mark.parametrize("body", ["<p>hello</p>", '{"hello": "world"}', "[1]"])
@pytest.mark.parametrize("args", [("threads", "list"), ("approvals", "list")])
async def test_another_web_server_at_the_agents_address_is_told(
    tmp_path: Path, args: tuple[str, ...], body: str
) -> None:
    async with other_server("200 OK", body=body) as other:
        code, line = await refused(tmp_path, *args, **AGENT, PLATFORM_URL=other.url)
    assert (code, f"{other.url} is not a Molecule server" in line, "PLATFORM_URL" in line) == (2, True, True)


@requirement("O1", "G6")
@pytest.mark.parametrize(
    "args", [("tool", "list_peers"), ("reply", "m1-abcde", "hello"), ("peers",), ("threads", "list"), ("mcp",)]
)
async def test_an_agents_address_with_a_port_that_is_none_is_told(tmp_path: Path, args: tuple[str, ...]) -> None:
    code, line = await refused(tmp_path, *args, **AGENT, PLATFORM_URL="http://localhost:80a")
    assert (code, "PLATFORM_URL is not a server address. Use one like https://host" in line) == (2, True)


@requirement("O1")
@pytest.mark.parametrize("address", ["http://localhost:80a", "http://localhost:99999", "localhost:8080"])
async def test_an_address_on_the_command_line_that_is_none_is_told(tmp_path: Path, address: str) -> None:
    code, line = await refused(tmp_path, "connect", "codex", "--workspace", "Ops", "--server", address)
    assert (code, "--server is not a server address. Use one like" in line) == (2, True)
    code, line = await refused(tmp_path, "org", "export", "--url", address)
    assert (code, "--server is not a server address. Use one like" in line) == (1, True)


@requirement("G7")
@pytest.mark.parametrize("url", ["http://999.1.1.1", "http://[zz]", "http://localhost:80a"])
async def test_an_address_that_only_looks_like_one_is_a_server_that_is_not_there(url: str) -> None:
    async with ApiClient(url, "a-token") as api:
        with pytest.raises(NoAnswerError, match="Invalid"):
            await api.get("/health")
        with pytest.raises(NoAnswerError, match="Invalid"):
            await anext(api.events())


@requirement("O1")
def test_a_hook_says_nothing_of_an_address_that_is_none() -> None:
    assert get_json("http://[::1", "/workspaces/w-1/waiting", "a-token", 1.0) is None


NO_TEXT = "caf\udce9"  # as Python has the bytes of a terminal that is set to Latin-1


@requirement("O1")
@pytest.mark.parametrize(
    "args",
    [
        ("reply", "m1-abcde", NO_TEXT),
        ("decline", "m1-abcde", NO_TEXT),
        ("delegate", "p-1", NO_TEXT),
        ("threads", "say", NO_TEXT, "hello"),
        ("threads", "say", "t-1", NO_TEXT),
        ("approvals", "show", NO_TEXT),
    ],
)
async def test_an_argument_that_is_no_text_is_told(tmp_path: Path, args: tuple[str, ...]) -> None:
    code, line = await refused(tmp_path, *args, **AGENT, PLATFORM_URL="http://127.0.0.1:9")
    number = args.index(NO_TEXT) + 1
    assert (code, line.partition(".")[0]) == (2, f"molecule: argument {number} is not UTF-8")


@requirement("M6", "O1")
async def test_an_organisations_name_that_is_no_text_is_told_and_is_no_difference(tmp_path: Path) -> None:
    file = tmp_path / "company.toml"
    file.write_text('name = "Acme"')
    async with serving(tmp_path / "state", port := free_port()):
        code, line = await refused(tmp_path, "org", "apply", str(file), "--port", str(port), "--org", NO_TEXT)
    assert (code, line.partition(".")[0]) == (1, "molecule: argument 7 is not UTF-8")
