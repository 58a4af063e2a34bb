"""What a real host and `molecule mcp` said to each other, as a page of docs/interop: nothing of it is secret or of one
machine, and two runs of the same versions give the same page.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from tests.interop.hosts import KEY, PROMPT, RealHost
from tests.interop.minds import Act, Asked, Call
from tests.interop.scene import Scene, Visit
from tests.journeys.processes import ROOT

FOLDER = ROOT / "docs" / "interop"
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
# In this order: what stands for things that differ from run to run, and from machine to machine.
_VARYING = (
    (re.compile(r"mol_[a-z]+_[A-Za-z0-9_-]+"), "TOKEN"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:PORT"),
    (re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?"), "TIME"),
    (re.compile(r"(?<![\w.])\d{13}(?![\w.])"), '"TIME"'),
    (re.compile(r"\bm(\d+)-[0-9a-z]{5}\b"), r"m\1-abcde"),
    (re.compile(r"Wall time: [\d.]+ seconds"), "Wall time: SECONDS"),
)


class Veil:
    """Takes out what must not be told, and gives ids names that stay the same within a page."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = {KEY: "KEY", **places}
        self._ids: dict[str, str] = {}

    def over(self, text: str) -> str:
        """The text as it may be shown."""
        for place in sorted(self._places, key=len, reverse=True):
            text = text.replace(place, self._places[place])
        for pattern, word in _VARYING:
            text = pattern.sub(word, text)
        return _UUID.sub(lambda found: self._ids.setdefault(found[0], f"ID-{len(self._ids) + 1}"), text)


def page(scene: Scene, visit: Visit, command: str = "") -> str:
    """The transcript of a visit. `command`: how the host was started, if not as it usually is."""
    host, file = scene.host, scene.told.file
    veil = Veil({str(scene.home.path): "~", str(ROOT): "CHECKOUT", sys.executable: "python"})
    program = "claude" if host.name == "claude-code" else host.name
    command = command or " ".join([program, *(f'"{word}"' if " " in word else word for word in host.command)])
    told = [
        f"# {host.title} {host.pinned.version}",
        "",
        f"Written by `scripts/interop write` from a run of `{host.pinned.package}` {host.pinned.version} against this",
        "version of Molecule; not edited. The host is the real one from npm; its model is a script that reacts to what",
        "the host shows it (`tests/interop`). Tokens, ports, times and paths are replaced, ids are numbered.",
        "",
        f"- `{file}`, as `molecule connect {host.name}` writes it:",
        "",
        *_fenced(veil.over(scene.configuration()), "toml" if file.endswith(".toml") else "json"),
        "",
        f"- started as `{command}`",
        f"- tools of ours that its model may call at once: {_tools(host, visit.mind.asked[0])}",
        "",
        "## What the model was shown and did",
        "",
        *_turns(veil, visit.mind.asked, visit.mind.acts),
        "## The lines between the host and `molecule mcp`",
        "",
        "`>` to Molecule, `<` from it. Of the list of tools the first one is whole.",
        "",
        *_fenced("\n".join(veil.over(shortened(line)) for line in visit.lines), "text"),
    ]
    return "\n".join(told) + "\n"


def _fenced(text: str, language: str) -> list[str]:
    return [f"```{language}", text.rstrip("\n"), "```"]


def _tools(host: RealHost, asked: Asked) -> str:
    ours = [name.removeprefix(host.prefix) for name in asked.tools if name.startswith(host.prefix)]
    return ", ".join(f"`{name}`" for name in sorted(ours))


def _turns(veil: Veil, asked: Iterable[Asked], acts: Iterable[Act]) -> Iterable[str]:
    for number, (each, act) in enumerate(zip(asked, acts, strict=True), start=1):
        shown = each.results[-1].text if each.results else _said_to(each)
        did = f"{act.tool} {_compact(act.arguments)}" if isinstance(act, Call) else act
        yield f"Turn {number}: it is shown"
        yield ""
        yield from _fenced(veil.over(shown), "text")
        yield ""
        yield f"and {'calls' if isinstance(act, Call) else 'says'}"
        yield ""
        yield from _fenced(veil.over(did), "text")
        yield ""


def _said_to(asked: Asked) -> str:
    """What a model is told before it has called anything: what was pushed, or the prompt."""
    pushed = asked.said.rfind('<channel source="molecule"')
    return PROMPT if pushed < 0 else asked.said[pushed : asked.said.find("</channel>", pushed) + len("</channel>")]


def shortened(line: str) -> str:
    """A line of the wire; of many tools only the first whole."""
    mark, message = line[:2], json.loads(line[2:])
    result: Any = message.get("result")
    if isinstance(result, dict) and len(result.get("tools", ())) > 1:
        first, *others = result["tools"]
        result["tools"] = [first, f"and {len(others)} more: {', '.join(each['name'] for each in others)}"]
    return mark + _compact(message)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write(host: RealHost, text: str, name: str = "") -> None:
    """Puts a page where it belongs."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name or host.name}.md").write_text(text, encoding="utf-8", newline="\n")
