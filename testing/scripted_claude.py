"""Claude Code as far as its lines go: a program that answers each message as its first word says.

Lines are those of recorded sessions of 2.1.332, or of 2.1.197 with `--old`. A session is a file in the folder that the
variable SCRIPTED_CLAUDE names: the ids of messages that it knows, so that a repeated one is only repeated back.
"""

import json
import math
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

OLD = "--old" in sys.argv
LIMIT_AT = 4_000_000_000


def say(**line: Any) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def end(id_: str, text: str | None, *, reason: str = "completed", is_error: bool = False, **more: Any) -> None:
    """Write the result of a turn, which always says that it is a success."""
    names = {} if OLD else {"terminal_reason": reason, "user_message_uuids": [id_]}
    usage = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 5}
    line = {"type": "result", "subtype": "success", "is_error": is_error, "result": text, "usage": usage}
    models = {"claude-small": {"outputTokens": 1}, "claude-large": {"outputTokens": 2}}
    say(**{**line, "total_cost_usd": 0.5, "modelUsage": models, **names, **more})


class Session:
    """The session, and what waits in it."""

    def __init__(self) -> None:
        flag = "--resume" if "--resume" in sys.argv else "--session-id"
        self.file = Path(os.environ["SCRIPTED_CLAUDE"]) / sys.argv[sys.argv.index(flag) + 1]
        if flag == "--resume" and not self.file.exists():
            sys.exit("No conversation found with session ID: " + self.file.name)
        self.waiting = ""
        """The message whose turn waits for something."""

    def take(self, id_: str, text: str) -> None:
        """A message: its turn, or only its repetition."""
        known = self.file.read_text().split() if self.file.exists() else []
        if id_ in known:
            say(type="user", uuid=id_, isReplay=True, message={"role": "user", "content": text})
            return
        self.file.write_text(" ".join([*known, id_]))
        if not OLD:
            say(type="command_lifecycle", command_uuid=id_, state="queued")
            say(type="command_lifecycle", command_uuid=id_, state="started")
        say(type="system", subtype="init", **({} if OLD else {"capabilities": ["msg_lifecycle_v1"]}))
        say(type="system", subtype="status", status="requesting", **({} if OLD else {"user_message_uuids": [id_]}))
        say(type="user", uuid=id_, isReplay=True, message={"role": "user", "content": text})
        word = next((each for each in WORDS if each in text), "say")
        WORDS[word](self, id_, text)

    def speak(self, id_: str, text: str) -> None:
        """The usual turn."""
        say(type="stream_event", event={"type": "content_block_delta", "delta": {"type": "text_delta", "text": "so: "}})
        if self.waiting:  # it was steered
            first, self.waiting = self.waiting, ""
            both: dict[str, Any] = {} if OLD else {"user_message_uuids": [first, id_]}
            end(id_, f"so: {text}", **both)
        else:
            end(id_, f"so: {text}")

    def wait(self, id_: str, text: str) -> None:
        """A turn that ends by an interrupt or with the next message."""
        self.waiting = id_

    def think(self, id_: str, text: str) -> None:
        """The same, after some words."""
        say(type="stream_event", event={"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hm "}})
        self.waiting = id_

    def break_off(self, id_: str, text: str) -> None:
        """A turn that says success and was broken off."""
        end(id_, "half a", reason="aborted_streaming")

    def fail(self, id_: str, text: str) -> None:
        """An error of the vendor, called a success."""
        end(id_, "API Error: 400 no such model", reason="api_error", is_error=True, api_error_status=400)

    def limit(self, id_: str, text: str) -> None:
        """A limit of the vendor, with its end: one that lasts, or `limit for N seconds` from the first message on."""
        for attempt, delay in enumerate((502, 1016), 1):
            tried = {"attempt": attempt, "max_retries": 10, "retry_delay_ms": delay}
            say(type="system", subtype="api_retry", error_status=429, error="rate_limit", **tried)
        if found := re.search(r"limit for (\d+) seconds", text):
            since = self.file.with_suffix(".limit")
            if not since.exists():
                since.write_text(str(math.ceil(time.time())))
            resets_at = int(since.read_text()) + int(found.group(1))
            with self.file.with_suffix(".tries").open("a") as tries:
                tries.write(f"{time.time()}\n")
            if time.time() >= resets_at:
                return self.speak(id_, text)
            info = {"status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour"}
            say(type="rate_limit_event", rate_limit_info=info)
            said = "You've hit your limit"
            return end(id_, said, reason="api_error", is_error=True, api_error_status=429)
        said = f"Claude AI usage limit reached|{LIMIT_AT}"
        return end(id_, said, reason="api_error", is_error=True, api_error_status=429)

    def throttle(self, id_: str, text: str) -> None:
        """A limit of the vendor after which the program repeats its request by itself: `throttle for N seconds`."""
        found = re.search(r"throttle for (\d+) seconds", text)
        seconds = int(found.group(1)) if found else 1
        tried = {"attempt": 1, "max_retries": 10, "retry_delay_ms": seconds * 1000}
        say(type="system", subtype="api_retry", error_status=429, error="rate_limit", **tried)
        threading.Event().wait(seconds)
        self.speak(id_, text)

    def shout(self, id_: str, text: str) -> None:
        """An answer in one very long line."""
        end(id_, "x" * 500_000)

    def die(self, id_: str, text: str) -> None:
        """kill -9 in the middle of a turn."""
        os.kill(os.getpid(), signal.SIGKILL)

    def ask(self, id_: str, text: str) -> None:
        """A permission, then what was decided."""
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t-1"}
        say(type="control_request", request_id="r-1", request={**request, "permission_suggestions": [{"type": "x"}]})
        self.waiting = id_

    def hook(self, id_: str, text: str) -> None:
        """The hook before a tool that needs no permission, then what it said."""
        call = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
        say(
            type="control_request",
            request_id="h-1",
            request={"subtype": "hook_callback", "callback_id": "molecule-scope", "input": call, "tool_use_id": "t-2"},
        )
        self.waiting = id_

    def quiz(self, id_: str, text: str) -> None:
        """A question to the user, the same in each turn, then the answer."""
        asked = [{"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}]
        request = {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": asked}}
        say(type="control_request", request_id=f"q-{id_}", request=request)
        self.waiting = id_

    def write(self, id_: str, text: str) -> None:
        """A change of the folder that it works in by a tool, then the answer."""
        call = {"type": "tool_use", "id": "t-w", "name": "Write", "input": {"file_path": "changed.txt"}}
        say(type="assistant", message={"content": [call]})
        Path("changed.txt").write_text("by the agent\n")
        say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": "t-w"}]})
        self.speak(id_, text)

    def stray(self, id_: str, text: str) -> None:
        """A line that is no JSON, a result of no message, then the answer."""
        sys.stdout.write("Warning: something\n")
        if not OLD:
            end("00000000-0000-4000-8000-000000000000", "a turn of its own")
        self.speak(id_, text)


WORDS = {
    "use the hook": Session.hook,
    "quiz": Session.quiz,
    "say": Session.speak,
    "think": Session.think,
    "wait": Session.wait,
    "break": Session.break_off,
    "fail": Session.fail,
    "limit": Session.limit,
    "throttle": Session.throttle,
    "shout": Session.shout,
    "die": Session.die,
    "ask": Session.ask,
    "stray": Session.stray,
    "write": Session.write,
}


def main() -> None:
    """Read lines until standard input ends. With `--deaf` the first process answers nothing, as one that hangs."""
    if "--version" in sys.argv:
        sys.stdout.write("2.1.197 (Claude Code)\n" if OLD else "2.1.332 (Claude Code)\n")
        return
    mark = Path(os.environ["SCRIPTED_CLAUDE"]) / "was-deaf"
    deaf = "--deaf" in sys.argv and not mark.exists()
    if deaf:
        mark.touch()
    session = Session()
    for raw in sys.stdin:
        line = json.loads(raw)
        if deaf:
            continue
        if line["type"] == "user":
            session.take(line["uuid"], line["message"]["content"])
        elif line["type"] == "control_response":
            waiting, session.waiting = session.waiting, ""
            end(waiting, json.dumps(line["response"]["response"]))
        elif line["type"] == "control_request":
            response = {"subtype": "success", "request_id": line["request_id"], "response": {"still_queued": []}}
            say(type="control_response", response=response)
            if line["request"]["subtype"] == "interrupt" and session.waiting:
                waiting, session.waiting = session.waiting, ""
                end(waiting, None, reason="aborted_streaming", is_error=True, subtype="error_during_execution")


if __name__ == "__main__":
    main()
