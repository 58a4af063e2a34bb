"""An agent in seventy lines: takes its seat, waits for messages, answers those that ask, and says that each is handled.

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


class Refused(Exception):
    """The server says no, and would say so again."""


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
                problem = json.load(error)
                if problem.get("code") != "rate_limited":
                    raise Refused(f"{path}: {problem['error']}") from None
        except OSError as error:
            print(f"{path}: {error}; again in a second", flush=True)
        time.sleep(1)


def handle(row: dict[str, Any]) -> str:
    """The agent's own mind: here it only repeats what it was told."""
    parts = row["request_body"]["params"]["message"]["parts"]
    return "You said: " + " ".join(part["text"] for part in parts if part["kind"] == "text")


def answer(row: dict[str, Any]) -> None:
    """As the message itself says: its handle leads to whoever asked. On a server that gives none, to the person."""
    if row["intent"] != "request":  # a result, or news: two agents that answer these would never end
        return
    told = row.get("instructions") or {}
    try:
        if "reply_handle" in told:
            call(f"/workspaces/{SEAT}/reply", {"handle": told["reply_handle"], "text": handle(row)})
        else:
            call(f"/workspaces/{SEAT}/notify", {"message": handle(row)}, key=f"answer-{row['id']}")
    except Refused as error:  # whoever asked may be gone by now; that is no reason to do nothing else any more
        print(f"not answered: {error}", flush=True)


def main() -> None:
    """Works until it is ended, or its token is refused."""
    call("/registry/register", {"id": SEAT, "delivery_mode": "poll", "agent_card": {"name": "Echo"}})
    print("seated; waiting for messages", flush=True)
    while True:
        for row in call(f"/workspaces/{SEAT}/activity?claim=60&wait=25&include=instructions"):
            answer(row)
            call(f"/workspaces/{SEAT}/activity/ack", {"activity_id": row["id"], "attempt": row["attempt"]})
            print(f"handled {row['id']} (attempt {row['attempt']})", flush=True)
        call("/registry/heartbeat", {"workspace_id": SEAT})


try:
    main()
except Refused as error:
    sys.exit(str(error))
