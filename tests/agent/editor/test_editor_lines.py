"""What `molecule acp` writes to its standard output: nothing but the protocol, whatever comes in."""

import json
import subprocess
import sys
from pathlib import Path

from testing.processes import MOLECULE
from tests.agent.editor.editor_client import editor_environment


def run_lines(state: Path, *lines: str) -> tuple[int, list[dict[str, object]]]:
    """The exit code, and what is answered to some lines before the input ends."""
    done = subprocess.run(
        (sys.executable, MOLECULE, "acp"),
        input="".join(f"{line}\n" for line in lines),
        env=editor_environment("http://127.0.0.1:9", state, "t-1"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_faulty_lines_get_errors_of_json_rpc_and_later_ones_are_answered(tmp_path: Path) -> None:
    code, answers = run_lines(
        tmp_path,
        "not json",
        "[1, 2]",
        '{"jsonrpc": "2.0", "id": "x", "result": {}}',
        '{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
        '{"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": 7}}',
        '{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 55}}',
        '{"jsonrpc": "2.0", "method": "no/such/notification"}',
        '{"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}',
        '{"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {"protocolVersion": 1}}',
    )
    codes = {str(each["id"]): each["error"]["code"] for each in answers if "error" in each}  # type: ignore[index]
    assert code == 0
    assert codes == {"None": -32600, "1": -32601, "2": -32602, "3": -32002}
    assert [each["id"] for each in answers if "error" in each].count(None) == 3
    assert [each["id"] for each in answers if "result" in each] == [4]
