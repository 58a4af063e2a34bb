"""Who may import whom, as data: the table of docs/architecture.md with its finer grains. `printed()` shows it.

A pattern names a module and everything below it: `store`, `store.database`, `edges.{live,events}`. A head of
`slices` stands for every slice. A module belongs to the row with the longest pattern that fits; one that fits
no row has no place in the house. Rows may stand here before their code.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

SLICES = ("delegations", "approvals", "threads", "messages", "memory", "org", "instructions", "access")

# Files beside the rooms that are no code.
LOOSE_FILES = {
    "py.typed": "tells type checkers that the package carries types",
    "canvas_assets": "the built page, made from canvas/ and not in the repository",
}


@dataclass(frozen=True)
class Row:
    """One room and all it may import. Its own files are part of the list only where they may import each other."""

    room: str
    may_import: tuple[str, ...]


EDGES = ("edges", "views", "slices.{writer,reader,rules,model}", "wire", "ground")

HOUSE = (
    Row("__init__", ()),
    # store.backup, store.copies: backup, restore and doctor work on a store without a server; store.database: which
    # schema this version knows.
    Row("cli", ("cli", "server", "demo", "agent", "client", "wire", "ground", "store.{backup,copies,database}")),
    Row("server", ("edges", "views", "slices", "store", "ground")),
    Row("edges", EDGES),
    Row("edges.{live,events}", (*EDGES, "store.journal")),
    Row(
        "views",
        ("views", "slices.{reader,model}", "instructions.render", "store.{database,journal,wakeups}", "wire", "ground"),
    ),
    Row("agent", ("agent", "client", "wire", "ground")),
    Row("demo", ("demo", "client", "wire", "ground")),
    Row("langchain", ("langchain", "client", "wire", "ground")),
    Row("client", ("client", "wire", "ground")),
    Row("store", ("store", "wire.events", "ground")),
    Row("wire", ("wire", "ground")),
    Row("ground", ("ground",)),
)

# What each slice may import of the slices below it; all of them may import store, wire and ground.
BELOW_A_SLICE = {
    "delegations": ("messages", "org"),
    "approvals": ("messages", "org"),
    "threads": ("messages", "org"),
    "messages": ("instructions.{render,reader,writer}", "org"),
    "memory": ("org.{reader,rules}",),
    "org": ("access",),
    "instructions": (),
    "access": (),
}

# Inside a slice: file -> the files of the same slice that it may import. Never back; the model imports nothing.
INSIDE: dict[str, tuple[str, ...]] = {
    "__init__": (),
    "model": (),
    "rules": ("model",),
    "reader": ("model", "queries"),
    "writer": ("rules", "reader", "model", "queries"),
    # pruning: retention, which is no verb of anybody, beside the writer so that neither grows over the other.
    "pruning": ("model",),
}

# The only files that may name a statement of their slice that writes; all others ask them.
HANDS = ("writer", "pruning")

# Files that only one slice has, and what they and the files above them add to the table above.
INSIDE_OF: dict[str, dict[str, tuple[str, ...]]] = {
    "messages": {
        "attachments": ("rules", "model"),
        "writer": (*INSIDE["writer"], "attachments"),
        "delivery": ("writer", "reader", "rules", "model"),
    },
    "org": {
        "registry": ("model",),
        "reader": (*INSIDE["reader"], "registry"),
        "writer": (*INSIDE["writer"], "registry"),
    },
    "threads": {
        "waiting": ("reader", "rules", "model"),
    },
    "instructions": {
        "language": ("model",),
        "rules": ("model", "language"),
        "render": ("language", "rules", "model"),
        "writer": (*INSIDE["writer"], "language", "render"),
    },
}


def _slice_rows(name: str) -> Iterator[Row]:
    below = (*BELOW_A_SLICE[name], "store", "wire", "ground")
    for file, inner in {**INSIDE, **INSIDE_OF.get(name, {})}.items():
        yield Row(f"{name}.{file}", (*(f"{name}.{one}" for one in inner), *(() if file == "__init__" else below)))


TABLE = (*HOUSE, *(row for name in SLICES for row in _slice_rows(name)))


def spelled_out(pattern: str) -> Iterator[str]:
    """`slices.{reader,model}` as `access.reader`, `access.model` and so on."""
    head, dot, rest = pattern.partition(".")
    inner = re.fullmatch(r"\{(.+)\}", rest)
    for first in SLICES if head == "slices" else (head,):
        for last in inner[1].split(",") if inner else (rest,):
            yield f"{first}{dot}{last}"


def fits(spot: str, pattern: str) -> bool:
    """True if the module at this spot is meant by the pattern."""
    return any(spot == one or spot.startswith(f"{one}.") for one in spelled_out(pattern))


def row_of(spot: str, table: tuple[Row, ...] = TABLE) -> Row | None:
    """The row of the room that holds this module, the most exact one; None if it has no place."""
    held = [(len(one), row) for row in table for one in spelled_out(row.room) if fits(spot, one)]
    return max(held, key=lambda pair: pair[0])[1] if held else None


def heads(table: tuple[Row, ...] = TABLE) -> set[str]:
    """The names that may stand at the top of the package."""
    return {one.split(".")[0] for row in table for one in spelled_out(row.room)}


def may_import_room(importer: str, imported: str, table: tuple[Row, ...] = TABLE) -> bool:
    """True if any file of the one top-level room may import any file of the other."""
    rows = [row for row in table if row.room.split(".")[0] == importer]
    return any(one.split(".")[0] == imported for row in rows for p in row.may_import for one in spelled_out(p))


def printed(table: tuple[Row, ...] = TABLE) -> str:
    """The table as text, a line a row."""
    width = max(len(row.room) for row in table)
    return "\n".join(f"{row.room:<{width}}  {', '.join(row.may_import) or 'nothing'}" for row in table)
