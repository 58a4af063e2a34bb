"""An agent in seventy lines: registers, waits for messages, answers requests, and acknowledges each message.

Needs nothing but Python. Configuration: MOLECULE_URL, MOLECULE_WORKSPACE_ID, MOLECULE_WORKSPACE_TOKEN.
docs/how-to/agent-in-python.md explains it line by line.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

URL = os.environ.get("MOLECULE_URL", "http://127.0.0.1:8080")
WORKSPACE = os.environ["MOLECULE_WORKSPACE_ID"]
TOKEN = os.environ["MOLECULE_WORKSPACE_TOKEN"]


class Rejected(Exception):
    """The server rejected a request, and would reject it again."""


def call(path: str, body: object = None, key: str | None = None) -> Any:
    """Send a request and return its response. Repeats it after a lost connection: a key or a handle makes that safe."""
    headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Idempotency-Key": key} if key else {})
    data = None if body is None else json.dumps(body).encode()
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers), timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                problem = json.load(error)
                if problem.get("code") != "rate_limited":
                    raise Rejected(f"{path}: {problem['error']}") from None
        except OSError as error:
            print(f"{path}: {error}; retry in a second", flush=True)
        time.sleep(1)


def work_on(row: dict[str, Any]) -> str:
    """Return the answer to a message. This is the place for your model; the example repeats the text."""
    parts = row["request_body"]["params"]["message"]["parts"]
    return "You said: " + " ".join(part["text"] for part in parts if part["kind"] == "text")


def answer(row: dict[str, Any]) -> None:
    """Answer a request by its reply handle, or the person if the server sends no instructions."""
    if row["intent"] != "request":  # a result or a notification: two agents that answered these would never stop
        return
    instructions = row.get("instructions") or {}
    try:
        if "reply_handle" in instructions:
            call(f"/workspaces/{WORKSPACE}/reply", {"handle": instructions["reply_handle"], "text": work_on(row)})
        else:
            call(f"/workspaces/{WORKSPACE}/notify", {"message": work_on(row)}, key=f"answer-{row['id']}")
    except Rejected as error:  # the sender may be gone; the other messages still need answers
        print(f"not answered: {error}", flush=True)


def main() -> None:
    """Work until the process is ended, or the token is rejected."""
    call("/registry/register", {"id": WORKSPACE, "delivery_mode": "poll", "agent_card": {"name": "Echo"}})
    print("registered; waiting for messages", flush=True)
    while True:
        for row in call(f"/workspaces/{WORKSPACE}/activity?claim=60&wait=25&include=instructions"):
            answer(row)
            call(f"/workspaces/{WORKSPACE}/activity/ack", {"activity_id": row["id"], "attempt": row["attempt"]})
            print(f"handled {row['id']} (attempt {row['attempt']})", flush=True)
        call("/registry/heartbeat", {"workspace_id": WORKSPACE})


try:
    main()
except Rejected as error:
    sys.exit(str(error))
