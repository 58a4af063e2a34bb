"""A Codex that answers all but one request: `python hung_codex.py METHOD FILE`.

The first request of that method is never answered; the file is made when it has come. Later ones are answered, also
by a new process. The approval policy of each turn is a line of the file `policies` beside it. Only the standard library
is used, so that it starts at once.
"""

import json
import sys
from pathlib import Path
from typing import Any

_RESULTS: dict[str, dict[str, Any]] = {
    "initialize": {"userAgent": "molecule_bridge/0.171.0 (Debian)"},
    "thread/start": {"thread": {"id": "t1"}},
    "thread/turns/list": {"data": []},
    "turn/start": {"turn": {"id": "turn-1"}},
}


def write(message: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main(hung: str, asked: Path) -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        method = message["method"]
        if "id" not in message:
            continue
        if method == hung and not asked.exists():
            asked.touch()
            continue
        write({"id": message["id"], "result": _RESULTS.get(method, {})})
        if method == "turn/start":
            with asked.with_name("policies").open("a", encoding="utf-8") as policies:
                policies.write(f"{message['params']['approvalPolicy']}\n")
            items = [{"type": "agentMessage", "id": "m1", "text": "an answer"}]
            turn = {"id": "turn-1", "status": "completed", "items": items}
            write({"method": "turn/completed", "params": {"threadId": message["params"]["threadId"], "turn": turn}})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
