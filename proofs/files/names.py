"""Names that mean to lead out of a folder: every way up, in every spelling, to things that lie outside."""

from pathlib import Path
from random import Random
from urllib.parse import quote

_UP = (
    "..",
    "../..",
    "../../..",
    "./..",
    "x/..",
    "x/../..",
    "....//..",
    "..;",
    ".. ",
    "..\\..",
    "\u2025",
    "\uff0e\uff0e",
    "..%2f..",
    "%2e%2e",
    "..%c0%af",
    "..\x00",
    "~",
    "~root",
    "",
    "/",
    "//",
    "\\\\server\\share",
    "C:",
    "file://",
    ".",
)
_SLASHES = ("/", "\\", "//", "/./", "%2f", "%5c", "\u2215", "\uff0f", "%252f")
_DEVICES = ("con", "NUL", "/dev/zero", "/dev/stdin", "/proc/self/environ", "/proc/self/mem", "\\\\.\\pipe\\x")
_ENDS = ("", "\x00.txt", "\r\nSet-Cookie: a=b", "/", "/.", ".txt", "::$DATA", "\u202etxt.exe", "?x", "#x", "*", " ")
_LONGEST = 5_000


def hostile_name(outside: Path, dice: Random) -> str:
    """One of them; `outside` holds `secret.md`, and nothing may ever come from it or go to it."""
    throw = dice.random()
    if throw < 0.06:
        return dice.choice(_DEVICES)
    if throw < 0.10:
        return dice.choice(("a", "../", "\u0301", "%2e")) * dice.randrange(1, _LONGEST)
    if throw < 0.20:
        return "../" * dice.randint(1, 4) + f"{outside.name}/secret.md"
    target = dice.choice(("secret.md", f"{outside.name}/secret.md", str(outside / "secret.md"), "etc/passwd"))
    if throw < 0.35:
        name = str(outside / "secret.md")
    else:
        steps = [dice.choice(_UP) for _ in range(dice.randint(1, 4))]
        name = dice.choice(_SLASHES).join([*steps, target])
    name += dice.choice(_ENDS)
    for _ in range(dice.choice((0, 0, 1, 2))):
        name = quote(name, safe="" if dice.random() < 0.5 else "/")
    return name
