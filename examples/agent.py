"""An agent in fifty lines: takes its seat, waits for messages, answers each, and says that it is handled.

Needs nothing but Python. Configuration: MOLECULE_URL, MOLECULE_WORKSPACE_ID, MOLECULE_WORKSPACE_TOKEN.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

URL = os.environ.get("MOLECULE_URL", "http://127.0.0.1:8080")
SEAT = os.environ["MOLECULE_WORKSPACE_ID"]
TOKEN = os.environ["MOLECULE_WORKSPACE_TOKEN"]


def call(path: str, body: object = None, key: str | None = None) -> Any:
    """One request; on a lost connection the same again, which is safe: the key makes the server do it once."""
    headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Idempotency-Key": key} if key else {})
    data = None if body is None else json.dumps(body).encode()
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers), timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                sys.exit(f"{path}: {json.load(error)['error']}")
        except OSError as error:
            print(f"{path}: {error}; again in a second", flush=True)
        time.sleep(1)


def handle(row: dict[str, Any]) -> str:
    """The agent's own mind: here it only repeats what it was told."""
    parts = row["request_body"]["params"]["message"]["parts"]
    return "You said: " + " ".join(part["text"] for part in parts if part["kind"] == "text")


def answer(row: dict[str, Any]) -> None:
    """As the message itself says: its handle leads to whoever asked. On a server that gives none, to the person."""
    told = row.get("instructions") or {}
    if "reply_handle" in told:
        call(f"/workspaces/{SEAT}/reply", {"handle": told["reply_handle"], "text": handle(row)})
    else:
        call(f"/workspaces/{SEAT}/notify", {"message": handle(row)}, key=f"answer-{row['id']}")


call("/registry/register", {"id": SEAT, "delivery_mode": "poll", "agent_card": {"name": "Echo"}})
print("seated; waiting for messages", flush=True)
while True:
    for row in call(f"/workspaces/{SEAT}/activity?claim=60&wait=25&include=instructions"):
        answer(row)
        call(f"/workspaces/{SEAT}/activity/ack", {"activity_id": row["id"], "attempt": row["attempt"]})
        print(f"answered {row['id']} (attempt {row['attempt']})", flush=True)
    call("/registry/heartbeat", {"workspace_id": SEAT})
