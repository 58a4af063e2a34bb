"""A byte order mark is no content, wherever a file, a line or a body is read."""

import io
from pathlib import Path

import pytest

from molecule_core.agent.config import read_token
from molecule_core.cli import connect, instructions, threads, tool
from molecule_core.client.org_file import read_org_file
from molecule_core.common.settings import load_settings
from molecule_core.server.state_folder import _read_token_file
from molecule_core.wire.protocols import strict_json
from testing.raw_http import ask
from testing.running_server import ADMIN_TOKEN, running

MARK = b"\xef\xbb\xbf"
TOKEN = "a" * 43


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_files_are_read_without_it(file: Path) -> None:
    file.write_bytes(MARK + TOKEN.encode() + b"\r\n")
    assert read_token(file) == TOKEN
    assert _read_token_file(file) == TOKEN
    assert threads._read_text(file) == f"{TOKEN}\n"
    assert instructions._read_text(file) == f"{TOKEN}\n"


def test_an_org_file_and_a_settings_file_may_begin_with_it(file: Path) -> None:
    file.write_bytes(MARK + b'name = "Acme"\n[[seat]]\nname = "Lead"\n')
    assert read_org_file(file).name == "Acme"
    file.write_bytes(MARK + b"port = 8123\n")
    assert load_settings({"MOLECULE_CONFIG": str(file)}, {}).port == 8123


def test_standard_input_is_read_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(text: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MARK + text), encoding="utf-8"))

    send(TOKEN.encode() + b"\n")
    assert connect._read_token() == TOKEN
    send(b"Sort the mail.\n")
    assert tool.read_standard_input() == "Sort the mail."
    send(b"Answer in German.\n")
    assert instructions._read_text(Path("-")) == "Answer in German.\n"


def test_a_json_text_may_begin_with_it_and_not_hold_it_elsewhere() -> None:
    assert strict_json.decode(MARK + b'{"a": 1}', max_depth=8) == {"a": 1}
    assert strict_json.decode(b'{"a": "\xef\xbb\xbf"}', max_depth=8) == {"a": "\ufeff"}


async def test_the_body_of_a_request_may_begin_with_it(tmp_path: Path) -> None:
    body, headers = MARK + b'{"name": "Ops"}', {"Content-Type": "application/json"}
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        reply = await ask(server.port, "POST", "/workspaces", body, token=ADMIN_TOKEN, headers=headers)
    assert (reply.status, reply.json["name"]) == (201, "Ops")
