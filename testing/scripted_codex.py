"""Replays what a real `codex app-server` has written: `python scripted_codex.py RECORDING`.

A recording has a line per message, `> ` to Codex and `< ` from it. What a client sends is looked up among the recorded
messages to Codex, by its method and text; then all is written that Codex wrote up to the next one. Ids of requests and
of messages are those of this client. A message that was never recorded is answered as Codex does when it has no such
turn. At the end of a recording whose last turn did not end, Codex is killed.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]
_NO_TURN = {"code": -32600, "message": "no active turn to steer"}


class Section:
    """A message to Codex, and what Codex wrote until the next one."""

    def __init__(self, sent: Message) -> None:
        self.sent = sent
        self.written: list[Message] = []
        self.is_played = False

    def fits(self, message: Message) -> bool:
        """Return whether a client's message is this one."""
        return not self.is_played and _about(self.sent) == _about(message)


def read_sections(path: Path) -> list[Section]:
    """Read a recording."""
    sections: list[Section] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        message = json.loads(line[2:])
        if line.startswith(">"):
            sections.append(Section(message))
        else:
            sections[-1].written.append(message)
    return sections


def _about(message: Message) -> tuple[str, str, object]:
    """Return what two messages have in common that ask for the same."""
    params = message.get("params") or {}
    text = "".join(part.get("text", "") for part in params.get("input", ()))
    return str(message.get("method", "")), text, message.get("result")


def play(section: Section, message: Message) -> list[Message]:
    """Return what Codex wrote, with the ids of this client."""
    section.is_played = True
    recorded_id = (section.sent.get("params") or {}).get("clientUserMessageId")
    client_id = (message.get("params") or {}).get("clientUserMessageId")
    written = []
    for each in section.written:
        line = json.loads(json.dumps(each))
        if "method" not in line and line.get("id") == section.sent.get("id"):
            line["id"] = message["id"]
        item = (line.get("params") or {}).get("item")
        if isinstance(item, dict) and item.get("type") == "userMessage" and item.get("clientId") == recorded_id:
            item["clientId"] = client_id
        written.append(line)
    return written


def main(path: Path) -> None:
    """Replay a recording until standard input ends."""
    sections = read_sections(path)
    for line in sys.stdin:
        message = json.loads(line)
        found = next((each for each in sections if each.fits(message)), None)
        if found is None:
            if "method" in message and "id" in message:
                sys.stdout.write(json.dumps({"id": message["id"], "error": _NO_TURN}) + "\n")
        else:
            for each in play(found, message):
                sys.stdout.write(json.dumps(each) + "\n")
        sys.stdout.flush()
        if found is sections[-1] and (found.sent.get("method") == "turn/start") and not _is_ended(found):
            os.kill(os.getpid(), signal.SIGKILL)


def _is_ended(section: Section) -> bool:
    return any(each.get("method") == "turn/completed" for each in section.written)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
