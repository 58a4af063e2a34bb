"""The output that a page prints, compared with the real one. The rules for what differs from run to run are here."""

import re

# What the page prints -> what the real output may have in its place, in this order.
_MASKS = (
    (r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"),
    (r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){0,3}…", r"[0-9a-f]{8}-[0-9a-f-]*"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?"),
    (r"Molecule \d+\.\d+\.\d+", r"Molecule \d\S*"),
    (r"about \d+ tokens", r"about \d+ tokens"),
    (r"(?<=127\.0\.0\.1):\d+", r":\d+"),
    (r"~(?=/)", r"(?:~|/\S*?)"),
    (r"…", r".*?"),
)
_ANY = re.compile("|".join(f"({printed})" for printed, _ in _MASKS))


def find_difference(printed: str, real: str) -> str:
    """Return "" if the real output is as printed, else both. A line `…` stands for any lines, `…` in a line for any
    text; ids, times and ports may differ."""
    pattern = "".join(_pattern(line) for line in printed.rstrip("\n").splitlines())
    if re.fullmatch(rf"{pattern}\s*", _tidy(real) + "\n", re.S):
        return ""
    return f"printed:\n{printed.rstrip()}\n--- but the command prints:\n{real.rstrip()}"


def _pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(?:[^\n]*\n)*?"
    parts, end = [], 0
    for found in _ANY.finditer(line):
        mask = _MASKS[(found.lastindex or 1) - 1][1].replace(".*?", r"[^\n]*?")
        parts += [re.escape(line[end : found.start()]), mask]
        end = found.end()
    return "".join([*parts, re.escape(line[end:].rstrip()), r"[ \t]*\n"])


def _tidy(text: str) -> str:
    return text.replace("\r", "").rstrip("\n")
