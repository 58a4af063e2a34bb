"""The command line: which words it has for what agents do, and a process of its own to say them in.

Above: doors.py. Below: `molecule`.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from testing.delegation_entrances import Shell
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS

Line = tuple[tuple[str, ...], str]
"""The words of a command, and what it reads from its standard input."""


class Process(Shell):
    """The same command line in processes of their own, as who calls it has it: words over argv, the token by the
    environment or by a file that it names."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    async def run(self, server: Running, who: Seat, *words: str, given: str = "", **environ: str) -> Result:
        """What a command says."""
        self._calls += 1
        async with asyncio.timeout(PROCESS_START_SECONDS):
            with tempfile.NamedTemporaryFile("w", prefix="token-") as file:
                file.write(who.token)
                file.flush()
                token = ("MOLECULE_WORKSPACE_TOKEN", who.token)
                if self._calls % 2:
                    token = ("MOLECULE_WORKSPACE_TOKEN_FILE", file.name)
                env = {**os.environ, "WORKSPACE_ID": who.id, "PLATFORM_URL": server.url, **dict([token]), **environ}
                return await _run(words, given, env)


async def _run(words: tuple[str, ...], given: str, env: dict[str, str]) -> Result:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "molecule_core", *words), stdin=pipe, stdout=pipe, stderr=pipe, env=env
    )
    try:
        out, err = await child.communicate(given.encode())
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return Result(CliRunner(), out, err, out + err, None, child.returncode or 0, None)


class Words:
    """What the command line calls the verbs for which it has words of its own."""

    @staticmethod
    def has(verb: str) -> bool:
        """Whether there are some."""
        return verb in _SAID

    @staticmethod
    def of(verb: str, given: dict[str, Any]) -> Line | None:
        """The command."""
        return _SAID[verb](given) if verb in _SAID else None

    @staticmethod
    def read(verb: str, text: str) -> dict[str, Any]:
        """What a command told."""
        match verb:
            case "reply" | "decline":
                return {"state": text.strip()}
            case "forget":
                return {"status": {"forgotten": "deleted"}.get(text.strip(), text)}
            case "memories":
                return {"memories": [dict(found.groupdict()) for found in _MEMORY.finditer(text)]}
            case "keys":
                return {"keys": [_key(found) for found in _KEY.finditer(text)]}
        told: dict[str, Any] = json.loads(text)
        return told


_MEMORY = re.compile(r"^(?P<id>\S+)  \S+  (?P<scope>\S+) *  (?P<namespace>\S*)  (?P<name>\w+): (?P<content>.*)$", re.M)
_KEY = re.compile(r"^(\S+)  version (\d+)(?:, until \S+)?  (.*)$", re.M)


def _key(found: re.Match[str]) -> dict[str, Any]:
    return {"key": found[1], "version": int(found[2]), "value": json.loads(found[3])}


def _reply(given: dict[str, Any]) -> Line:
    return ("reply", given["handle"], *(("--progress",) if given.get("progress") else ())), given["text"]


def _decline(given: dict[str, Any]) -> Line:
    return ("decline", given["handle"], "-"), given["reason"]


def _forget(given: dict[str, Any]) -> Line:
    return ("memory", "forget", given["own"], given["memory_id"]), ""


def _memories(given: dict[str, Any]) -> Line:
    if "q" in given:
        return ("memory", "search", given["own"], *given["q"].split()), ""
    return ("memory", "list", given["own"], *(("--scope", given["scope"]) if "scope" in given else ())), ""


def _keys(given: dict[str, Any]) -> Line:
    return ("memory", "keys", given["own"]), ""


def _asks(given: dict[str, Any]) -> Line:
    words = ["approvals", "request", given["action"], "--reason", "-", "--wait", "0", "--json"]
    words += ["--details", json.dumps(given["details"])] if "details" in given else []
    words += ["--cost", str(given["cost"])] if "cost" in given else []
    words += ["--expires", str(given["expires_in"])] if "expires_in" in given else []
    return tuple(words), given["reason"]


def _decides(given: dict[str, Any]) -> Line:
    words = ["approvals", "decide", given["approval_id"], given["decision"], "--note", given["note"], "--json"]
    words += ["--revision", str(given["revision"]), "--action-hash", given["action_hash"]]
    words += ["--details", json.dumps(given["details"])] if "details" in given else []
    return (*words, "--workspace", given["own"]), ""


def _says_more(given: dict[str, Any]) -> Line:
    details = ("--details", json.dumps(given["details"])) if "details" in given else ()
    return ("approvals", "answer", given["approval_id"], "-", *details, "--json"), given["text"]


def _withdraws(given: dict[str, Any]) -> Line:
    return ("approvals", "withdraw", given["approval_id"], "--note", given["note"], "--json"), ""


def _uses(given: dict[str, Any]) -> Line:
    return ("approvals", "use", given["approval_id"], given["action_hash"], "--json"), ""


def _rules(given: dict[str, Any]) -> Line:
    return ("approvals", "rules", given["own"], "--set", "-", "--json"), json.dumps(given["rules"])


def _starts(given: dict[str, Any]) -> Line:
    model = ("--model", given["model"]) if "model" in given else ()
    words = ("threads", "start", given["input"], "--workspace", given["own"], "--base", "-", "--json")
    return (*words, "--nickname", given["nickname"], *model), given["base_instructions"]


def _forks(given: dict[str, Any]) -> Line:
    position = ("--position", str(given["position"])) if "position" in given else ()
    return ("threads", "fork", given["thread_id"], "--nickname", given["nickname"], *position, "--json"), ""


def _speaks(given: dict[str, Any]) -> Line:
    return ("threads", "say", given["thread_id"], "-", "--mode", given["mode"], "--json"), given["input"]


def _stops(verb: str) -> Callable[[dict[str, Any]], Line]:
    def words(given: dict[str, Any]) -> Line:
        return ("threads", verb, given["thread_id"], "--descendants", given["descendants"], "--json"), ""

    return words


def _resumes(given: dict[str, Any]) -> Line:
    model = ("--model", given["model"]) if "model" in given else ()
    return ("threads", "resume", given["thread_id"], *model, "--json"), ""


_SAID: dict[str, Callable[[dict[str, Any]], Line]] = {
    "reply": _reply,
    "decline": _decline,
    "forget": _forget,
    "memories": _memories,
    "keys": _keys,
    "request_approval": _asks,
    "decide_approval": _decides,
    "person decides": _decides,
    "say more": _says_more,
    "withdraw": _withdraws,
    "use": _uses,
    "person rules": _rules,
    "start": _starts,
    "fork": _forks,
    "speak": _speaks,
    "interrupt": _stops("interrupt"),
    "close": _stops("close"),
    "resume": _resumes,
}
