"""A scripted agent that speaks ACP and has one known fault: `python faulty_acp_agent.py FAULT FOLDER`.

Without a fault (`none`) it is honest: it keeps its sessions in FOLDER, repeats their history when they are loaded, and
answers each prompt with the number of messages that it has had and the last line of the newest one. Words in a message
make it ask for a permission (`ASK`) or wait until it is cancelled (`SLOW`). Only the standard library is used, so that
it starts at once.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

FAULTS = {
    "none": "is honest",
    "loads_nothing": "loads a session that never existed, with success and no history",
    "refuses_load": "announces session/load and answers it with an error",
    "holds_first_load": "repeats the history, but never answers the first session/load",
    "loads_late": "repeats the history only after it has reported the session as loaded",
    "says_nothing": "ends a turn without a word",
    "ends_before_permission": "ends the turn while its own request for a permission is open",
    "repeats_old_message": "begins a turn with the text of the message before",
    "ignores_cancel": "goes on after session/cancel, and never answers the prompt",
    "reports_cancel_as_end": "stops when cancelled, but reports end_turn",
    "writes_after_end": "sends text after the turn has ended",
    "doubles_ids": "sends each request and each response twice",
    "garbage": "writes lines that are no JSON, and JSON that is no message",
    "noise": "prints its own log to standard output",
    "long_line": "writes a line of five million bytes",
    "endless_line": "writes a line without an end",
    "dies": "is killed in the middle of its first turn",
    "exits_with_success": "exits with code 0 in the middle of its first turn",
    "hangs": "never answers initialize",
    "unknown_updates": "sends updates of unknown kinds, and known ones with wrong types",
    "cancels_itself": "ends a turn as cancelled that was not stopped",
    "unknown_stop": "ends a turn for a reason that the protocol does not have",
    "foreign_permission": "asks for a permission in a session that does not exist",
    "merges_prompts": "answers a prompt only together with the next one",
    "error_without_code": "answers a prompt with an error that is only a text",
    "odd_ids": "sends responses with ids that are lists and texts",
    "drips": "writes its answer letter by letter",
    "limited": "reports a limit of its vendor",
    "offers_only_always": "offers no permission for a single use",
    "leaves_child": "starts a child of its own session, which outlives it",
    "session_without_id": "creates a session without an id",
}
_ERRORS = {
    "error_without_code": "boom",
    "limited": {"code": 429, "message": "Resource exhausted", "data": {"details": "Please retry in 120s"}},
}
_MANY = 5_000_000
_WAIT_SECONDS = 60.0


class Agent:
    """The agent."""

    def __init__(self, fault: str, folder: Path) -> None:
        self.fault = fault
        self.folder = folder
        self.lock = threading.Lock()
        self.cancelled: dict[str, threading.Event] = {}
        self.decisions: dict[object, dict[str, Any]] = {}
        self.decided = threading.Condition()
        self.held: list[object] = []
        self.number = 1000

    # -- lines ---------------------------------------------------------------------------------------------------------

    def write(self, message: object) -> None:
        """Write one line."""
        with self.lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def write_raw(self, text: str) -> None:
        """Write text as it is."""
        with self.lock:
            sys.stdout.write(text)
            sys.stdout.flush()

    def respond(self, number: object, result: object) -> None:
        """Answer a request."""
        message = {"jsonrpc": "2.0", "id": number, "result": result}
        if self.fault == "odd_ids":
            self.write({**message, "id": [number]})
            self.write({**message, "id": f"{number}"})
            self.write({**message, "id": True})
        self.write(message)
        if self.fault == "doubles_ids":
            self.write(message)

    def update(self, session: str, **fields: object) -> None:
        """Send an update of a session."""
        params = {"sessionId": session, "update": fields}
        self.write({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def say(self, session: str, text: str, message_id: str) -> None:
        """Send a piece of a message."""
        content = {"type": "text", "text": text}
        self.update(session, sessionUpdate="agent_message_chunk", messageId=message_id, content=content)

    # -- requests ------------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Handle lines until standard input ends."""
        for line in sys.stdin:
            message = json.loads(line)
            method, params = message.get("method"), message.get("params") or {}
            if method is None:
                with self.decided:
                    self.decisions[message["id"]] = message.get("result") or {}
                    self.decided.notify_all()
            elif method == "session/prompt":
                threading.Thread(target=self.prompt, args=(message["id"], params), daemon=True).start()
            elif method == "session/cancel":
                self.cancelled.setdefault(params["sessionId"], threading.Event()).set()
            else:
                handler: Callable[[object, dict[str, Any]], None] = getattr(self, method.replace("/", "_"))
                handler(message["id"], params)

    def initialize(self, number: object, params: dict[str, Any]) -> None:
        """Answer the handshake."""
        if self.fault == "hangs":
            return
        if self.fault == "noise":
            self.write_raw("Loading configuration...\n\x1b[32mready\x1b[0m\n")
        about = {"name": "faulty", "title": "Faulty agent", "version": "1.0"}
        capabilities = {"loadSession": True}
        self.respond(number, {"protocolVersion": 1, "agentInfo": about, "agentCapabilities": capabilities})

    def session_new(self, number: object, params: dict[str, Any]) -> None:
        """Create a session."""
        if self.fault == "session_without_id":
            self.respond(number, {})
            return
        session = f"s{len(list(self.folder.glob('*.json'))) + 1}-{os.getpid()}"
        self.keep(session, [])
        self.respond(number, {"sessionId": session})

    def session_load(self, number: object, params: dict[str, Any]) -> None:
        """Repeat the history of a session."""
        session = params["sessionId"]
        file = self.folder / f"{session}.json"
        if self.fault == "loads_nothing":
            self.respond(number, {})
            return
        if self.fault == "refuses_load" or not file.exists():
            self.write({"jsonrpc": "2.0", "id": number, "error": {"code": -32603, "message": "Internal error"}})
            return
        if self.fault == "loads_late":
            self.respond(number, {})
        for count, text in enumerate(json.loads(file.read_text(encoding="utf-8")), 1):
            content = {"type": "text", "text": text}
            self.update(session, sessionUpdate="user_message_chunk", content=content)
            self.update(
                session,
                sessionUpdate="agent_message_chunk",
                content={"type": "text", "text": f"{count}: an old answer"},
            )
        if self.fault != "loads_late" and not (self.fault == "holds_first_load" and self.is_first("held")):
            self.respond(number, {})

    def keep(self, session: str, texts: list[str]) -> None:
        """Keep the messages of a session."""
        (self.folder / f"{session}.json").write_text(json.dumps(texts), encoding="utf-8")

    def prompt(self, number: object, params: dict[str, Any]) -> None:
        """Run a turn."""
        session = params["sessionId"]
        texts = json.loads((self.folder / f"{session}.json").read_text(encoding="utf-8"))
        texts.append("".join(block["text"] for block in params["prompt"]))
        self.keep(session, texts)
        (self.folder / "prompts").open("a", encoding="utf-8").write(json.dumps(texts[-1]) + "\n")
        stopped = self.cancelled[session] = threading.Event()
        body = texts[-1].rpartition("<body>")[2].partition("</body>")[0]  # without an envelope, all of it
        answer = f"{len(texts)}: {body.strip().splitlines()[-1]}"
        turn = f"m{len(texts)}"
        if self.misbehave(number, session, answer, turn, len(texts)):
            return
        if "SLOW" in answer:
            self.say(session, "working", turn)
            stopped.wait(_WAIT_SECONDS)
            reason = "end_turn" if self.fault == "reports_cancel_as_end" else "cancelled"
            self.respond(number, {"stopReason": reason})
            return
        if "ASK" in answer:
            answer = f"{answer} {json.dumps(self.ask(session, turn))}"
        self.say(session, answer, turn)
        self.respond(number, {"stopReason": "end_turn", "usage": {"inputTokens": 3, "outputTokens": 2}})
        if self.fault == "writes_after_end":
            self.say(session, " and this comes too late", turn)

    def ask(self, session: str, turn: str, *, is_awaited: bool = True) -> dict[str, Any]:
        """Ask for a permission; return the outcome."""
        self.number += 1
        call = {"toolCallId": f"call-{turn}", "title": "touch a", "kind": "execute", "rawInput": {"command": "touch a"}}
        options = [
            {"optionId": "once", "kind": "allow_once", "name": "Allow"},
            {"optionId": "always", "kind": "allow_always", "name": "Always"},
            {"optionId": "no", "kind": "reject_once", "name": "Reject"},
        ]
        if self.fault == "offers_only_always":
            options = options[1:]
        self.update(session, sessionUpdate="tool_call", status="pending", **call)
        params = {"sessionId": session, "toolCall": call, "options": options}
        request = {"jsonrpc": "2.0", "id": self.number, "method": "session/request_permission", "params": params}
        self.write(request)
        if self.fault == "doubles_ids":
            self.write(request)
        if not is_awaited:
            return {}
        with self.decided:
            self.decided.wait_for(lambda: request["id"] in self.decisions, _WAIT_SECONDS)
        return dict(self.decisions.get(request["id"], {}))

    # -- faults --------------------------------------------------------------------------------------------------------

    def misbehave(self, number: object, session: str, answer: str, turn: str, count: int) -> bool:
        """Do what the fault is; return whether the turn is over."""
        match self.fault:
            case "says_nothing":
                self.respond(number, {"stopReason": "end_turn"})
            case "ends_before_permission":
                self.ask(session, turn, is_awaited=False)
                self.say(session, answer, turn)
                self.respond(number, {"stopReason": "end_turn"})
            case "ignores_cancel":
                self.say(session, "on and on", turn)
            case "endless_line":
                self.write_raw("x" * _MANY)
            case "dies" | "exits_with_success" if self.is_first("died"):
                self.say(session, "half an ans", turn)
                os.kill(os.getpid(), signal.SIGKILL) if self.fault == "dies" else os._exit(0)
            case "cancels_itself" | "unknown_stop":
                self.say(session, "half an ans", turn)
                self.respond(number, {"stopReason": "cancelled" if self.fault == "cancels_itself" else "tired"})
            case "error_without_code" | "limited":
                self.write({"jsonrpc": "2.0", "id": number, "error": _ERRORS[self.fault]})
            case "merges_prompts":
                self.held.append(number)
                if len(self.held) > 1:
                    self.say(session, answer, turn)
                    for each in self.held:
                        self.respond(each, {"stopReason": "end_turn"})
            case _:
                self.precede(session, answer, turn, count)
                return False
        return True

    def precede(self, session: str, answer: str, turn: str, count: int) -> None:
        """Do what a fault does before an answer that is right."""
        match self.fault:
            case "garbage":
                self.write_raw('{"jsonrpc": "2.0", "id": \n[1, 2]\n3\n"text"\nnull\n{}\n\x00\x01\n{"id": 1}\n')
            case "noise":
                self.write_raw("thinking...\n")
            case "long_line":
                self.update(session, sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "x" * _MANY})
            case "unknown_updates":
                self.update(session, sessionUpdate="telepathy", content="?")
                self.update(session, sessionUpdate="agent_message_chunk", content=["no", "block"])
                self.update(session, sessionUpdate="tool_call", toolCallId=7, title={"no": "text"})
                self.update(session, sessionUpdate=None)
                self.write({"jsonrpc": "2.0", "method": "session/update", "params": ["no", "object"]})
                self.write({"jsonrpc": "2.0", "id": 77, "method": "fs/read_text_file", "params": {}})
            case "leaves_child" if count == 1:
                child = subprocess.Popen(
                    (sys.executable, "-c", "input()"), stdin=subprocess.PIPE, start_new_session=True
                )
                (self.folder / "child").write_text(str(child.pid), encoding="utf-8")
            case "foreign_permission":
                self.ask("no-such-session", turn)
            case "repeats_old_message" if count > 1:
                self.say(session, f"{count - 1}: an old answer", f"m{count - 1}")
            case "drips":
                for letter in "slowly, ":
                    self.say(session, letter, turn)
                    threading.Event().wait(0.02)

    def is_first(self, name: str) -> bool:
        """Return whether this happens for the first time, also over restarts."""
        with contextlib.suppress(FileExistsError):
            (self.folder / name).touch(exist_ok=False)
            return True
        return False


if __name__ == "__main__":
    Agent(sys.argv[1], Path(sys.argv[2])).serve()
