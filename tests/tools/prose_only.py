"""Comparison of recorded texts with everything but their prose: a change of words must change nothing else.

python -m tests.tools.prose_only         prints what counts as prose
python -m tests.tools.prose_only REV     compares the recorded texts and the tools list of a revision with ours
"""

import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests/tools/snapshots", "tests/instructions/snapshots")

PROSE_PATHS = {
    "tools list": ("*.description",),
    "recorded JSON": (
        "instructions.text",
        "instructions.tokens",
        "instructions.stdout_warning",
        "*.instructions.text",
        "*.instructions.tokens",
        "*.stdout_warning",
        "*.note",
        "*.advice",
    ),
}
"""JSON paths of prose, with numbers for the members of lists; `*` is any text. Objects and lists are never prose."""
PROSE_LINES = (
    "Markdown: headings of sections, paragraphs, and what follows the name of a tool",
    "shell: what follows # after a command, and paragraphs",
    "recorded instructions: their lines, and their tokens in the heading of a message",
    "the number of a template's version after @, which a new text raises",
    "any string: what is between <instructions> and </instructions> at its begin, or in a <channel>",
)
MASK = "…"
_BLOCK = re.compile(r"^((?:<channel [^>]*>\s*)?<instructions>).*?(</instructions>)", re.DOTALL)
_LISTING = (
    "import msgspec, sys; from molecule_core.tools.mcp_dispatcher import tool_listing; "
    "from molecule_core.tools.registry import TOOLS; "
    "sys.stdout.buffer.write(msgspec.json.encode([tool_listing(spec) for spec in TOOLS]))"
)


def masked(value: Any, paths: tuple[str, ...], at: str = "") -> Any:
    """Return a JSON value without its prose."""
    if isinstance(value, dict):
        return {name: masked(each, paths, f"{at}.{name}".lstrip(".")) for name, each in value.items()}
    if isinstance(value, list):
        return [masked(each, paths, f"{at}.{number}".lstrip(".")) for number, each in enumerate(value)]
    if any(fnmatchcase(at, path) for path in paths):
        return MASK
    if at.endswith("instructions.template"):
        return re.sub(r"@\d+$", f"@{MASK}", value)
    return _BLOCK.sub(rf"\1{MASK}\2", value) if isinstance(value, str) else value


def masked_page(page: str) -> list[str]:
    """Return the lines of a recorded text without their prose."""
    return list(_masked_lines(page))


def _masked_lines(page: str) -> Iterator[str]:
    above = ""
    for line in page.splitlines():
        if (found := _json_of(line)) is not None:
            about = {"instructions": found} if above == "-- instructions" else found
            yield json.dumps(masked(about, PROSE_PATHS["recorded JSON"]), ensure_ascii=False)
        elif line.startswith("== "):
            yield re.sub(r": \d+ tokens, .*", f": {MASK}", line)
        elif re.match(r"-- |\w+: (GET|POST) |register$|heartbeat$|stream: |pushed$", line):
            yield line
        elif name := re.match(r"- \*\*\w+\*\*: |### \w+", line):
            yield name[0]
        elif line.startswith("## "):
            yield "##"
        elif line.startswith("    "):
            yield line.split("#")[0].rstrip()
        above = line


def _json_of(line: str) -> Any:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict | list | str) else None


def changes_beside_prose(old: str, new: str) -> list[str]:
    """Return the lines that two recorded texts have differently, without their prose."""
    before, after = masked_page(old), masked_page(new)
    length = max(len(before), len(after))
    padded = zip(*(lines + [""] * (length - len(lines)) for lines in (before, after)), strict=True)
    return [f"- {was}\n+ {now}" for was, now in padded if was != now]


def tools_list(source: Path) -> Any:
    """Return the tools list of the product in a folder of sources."""
    code = f"import sys; sys.path.insert(0, {str(source)!r}); {_LISTING}"
    return json.loads(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout)


def _compare(revision: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        archive = _git("archive", revision, "src", *FOLDERS)
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        old, faults = Path(folder), 0
        for path in sorted(path for each in FOLDERS for path in (ROOT / each).iterdir()):
            name = path.relative_to(ROOT)
            was, now = ((place / name).read_text(encoding="utf-8") for place in (old, ROOT))
            found = changes_beside_prose(was, now)
            faults += len(found)
            kept = f"{len(masked_page(now))} lines beside its prose are equal"
            _write(f"{name}: {'unchanged' if was == now else kept}" if not found else f"{name}:\n" + "\n".join(found))
        lists = [tools_list(place / "src") for place in (old, ROOT)]
        plain = [masked(each, PROSE_PATHS["tools list"]) for each in lists]
        sizes = [len(json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode()) for each in lists]
        faults += plain[0] != plain[1]
        equal = "equal but for its prose" if plain[0] == plain[1] else "DIFFERS beside its prose"
        _write(f"tools list: {equal}; bytes before {sizes[0]}, now {sizes[1]}")
    return int(faults > 0)


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _print_prose() -> int:
    for what, paths in PROSE_PATHS.items():
        _write(f"{what}: {', '.join(paths)}")
    _write("\n".join(PROSE_LINES))
    return 0


if __name__ == "__main__":
    sys.exit(_compare(sys.argv[1]) if len(sys.argv) > 1 else _print_prose())
