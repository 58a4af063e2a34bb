"""Who may import whom, as data: the table of docs/architecture.md with its finer grains. `printed()` shows it.

A pattern names a module and everything below it: `store`, `store.database`, `edges.{live,events}`. A head of
`slices` stands for every slice. A module belongs to the row with the longest pattern that fits; one that fits
no row has no place in the house. Rows may stand here before their code.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

SLICES = ("delegations", "approvals", "threads", "messages", "memory", "prompts", "org", "instructions", "access")

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


# messages.*: the other hands of the messages slice, and its reader and rules of delivery.
EDGES = (
    "edges",
    "views",
    "slices.{writer,reader,rules,model}",
    "messages.{askers,chains,handing,letters,lineage,pushed,replies,telling,tracking,turns}",
    "wire",
    "ground",
)

HOUSE = (
    Row("__init__", ()),
    # `python -m molecule_core`: how hosts start the command from any folder.
    Row("__main__", ("entry",)),
    # store.backup, store.copies: backup, restore and doctor work on a store without a server; store.database: which
    # schema this version knows.
    Row(
        "cli",
        ("cli", "server", "serving", "demo", "agent", "client", "wire", "ground", "store.{backup,copies,database}"),
    ),
    # The command's own beginning: straight to an agent's process, or to the command line.
    Row("entry", ("cli", "agent.main")),
    Row("server", ("standing", "edges", "views", "slices", "store", "ground")),
    # The server's lower half: its store, wake-ups, the other processes.
    Row("standing", ("store", "ground")),
    # The wired server in a process: it listens, and each who comes is a connection of ours.
    Row("serving", ("server", "edges.protocol", "ground")),
    Row("edges", EDGES),
    Row("edges.{live,events}", (*EDGES, "store.journal")),
    Row("edges.{instructions,agent_docs}", (*EDGES, "instructions.{language,layer,render}")),
    Row("edges.previews", (*EDGES, "instructions.{checking,layer,render}", "messages.handles")),
    Row(
        "edges.{threads,engines,agents,conversing}",
        (*EDGES, "edges", "threads.{bases,calling,spawning,turning,waiting}"),
    ),
    Row("edges.figures", (*EDGES, "instructions.trials", "messages.measuring")),
    Row("edges.files", (*EDGES, "messages.{attachments,filing}")),
    Row(
        "views",
        ("views", "slices.{reader,model}", "instructions.render", "store.{database,journal,wakeups}", "wire", "ground"),
    ),
    # agent.bridges too: how programs that are no hosts of MCP keep a seat.
    Row("agent", ("agent", "client", "wire", "ground")),
    Row("demo", ("demo", "client", "wire", "ground")),
    # Who an agent is stands in its environment, and is read there by one hand; so is what a refusal says to a model.
    Row("langchain", ("langchain", "agent.{config,speaking}", "client", "wire", "ground")),
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
    "messages": ("instructions.{measuring,model,render,reader,trials,writer}", "org"),
    "memory": ("org.{reader,rules}",),
    "prompts": ("org.{model,reader}",),
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

# Files that only one slice has, and what they and the files above them add to the table above.
INSIDE_OF: dict[str, dict[str, tuple[str, ...]]] = {
    "delegations": {
        # Steps without decisions, the one transaction of a begin, who follows facts of messages and org; the writer
        # makes commands of them.
        "steps": ("rules", "model"),
        "beginning": ("steps", "rules", "model"),
        "hearing": ("steps", "rules", "model"),
        # What a list shows of a text, and whether work is stuck, is decided by the rules.
        "reader": (*INSIDE["reader"], "rules"),
        "writer": ("beginning", "steps", *INSIDE["writer"]),
    },
    "approvals": {
        # How one is shown, what is written to its parties, and what is set are apart from the steps, which the writer
        # and who follows facts make commands of; `hands` makes all of them together for the server.
        "items": ("model",),
        "letters": ("model",),
        "policies": ("model",),
        "steps": ("items", "letters", "policies", "rules", "model"),
        "hearing": ("steps", "rules", "model"),
        "reader": (*INSIDE["reader"], "items", "policies"),
        "writer": ("items", "policies", "steps", *INSIDE["writer"]),
        "hands": ("hearing", "policies", "pruning", "reader", "steps", "writer", "model"),
    },
    "messages": {
        "attachments": ("rules", "model"),
        # What has no content two agents can exchange for ever: a table of its own.
        "smalltalk": (),
        # The model of chains: a second half of the noun, which the first need not know.
        "lineage": (),
        # The other half of the model: how the delivery of one message stands.
        "pushed": ("model",),
        "rules": ("model", "pushed", "lineage", "smalltalk"),
        # What became of a message, as notes and events: every hand tells it.
        "ticks": ("rules", "model"),
        # How an agent is told to answer: handles are pure, telling asks the renderer. Obligations are what is owed, and
        # owing says when that begins and ends; silence watches it, replies are what ends it.
        "handles": (),
        "telling": ("handles", "model"),
        "obligations": ("handles", "ticks", "rules", "model"),
        # What others hear of messages that carry a delegation.
        "facts": (),
        "owing": ("obligations", "telling", "ticks", "rules", "facts", "model"),
        "lines": ("obligations", "model"),
        "reader": (*INSIDE["reader"], "lines", "lineage"),
        # One inbox has several hands: who sends, with what chains and broadcasts need, who settles, who hands out, who
        # gives up, who pushes. `delivery` talks to agents and writes nothing itself; `turns` and `tracking` are rules
        # and reads that belong to delivery alone.
        "chains": ("rules", "reader", "model", "lineage", "queries"),
        "broadcasts": ("chains", "attachments", "entering", "rules", "model", "lineage", "queries"),
        "settling": ("owing", "ticks", "rules", "pushed", "model"),
        # What a row that enters a log brings with it; and the rows that a delegation leaves.
        "entering": ("ticks", "model"),
        # The rows that an approval leaves.
        "asking": ("entering", "facts", "results", "owing", "obligations", "model"),
        "results": ("attachments", "entering", "facts", "settling", "owing", "obligations", "ticks", "model"),
        # Writes in the transaction in which a seat is removed, by the same rows.
        "hearing": ("results", "obligations", "rules", "model"),
        "handing": ("settling", "owing", "telling", "ticks", "reader", "rules", "model"),
        "writer": (
            *INSIDE["writer"],
            "attachments",
            "chains",
            "broadcasts",
            "entering",
            "asking",
            "results",
            "facts",
            "patience",
            "settling",
            "owing",
            "obligations",
            "ticks",
            "lineage",
        ),
        "answers": ("obligations", "rules", "model"),
        "replies": (
            "writer",
            "asking",
            "answers",
            "results",
            "attachments",
            "facts",
            "settling",
            "owing",
            "obligations",
            "handles",
            "ticks",
            "rules",
            "model",
        ),
        "silence": ("patience", "settling", "owing", "obligations", "ticks", "rules", "pushed", "model"),
        # Files and the rows that tell of them: sending need not know how bytes are kept.
        "filing": ("writer", "rules", "model", "attachments"),
        # Who waits for the answer of a push agent; and what is told to a workspace that does not.
        "patience": ("settling", "obligations", "ticks", "model"),
        "askers": (
            "patience",
            "answers",
            "results",
            "attachments",
            "entering",
            "settling",
            "obligations",
            "rules",
            "ticks",
            "turns",
            "pushed",
            "lineage",
            "model",
        ),
        "letters": ("askers", "patience", "settling", "obligations", "ticks", "rules", "pushed", "model"),
        "turns": ("pushed", "model"),
        # What came of a push, in a file of its own beside the claims.
        "outcomes": (
            "askers",
            "attachments",
            "entering",
            "facts",
            "letters",
            "settling",
            "owing",
            "obligations",
            "ticks",
            "rules",
            "turns",
            "pushed",
            "model",
        ),
        "pushing": (
            "writer",
            "attachments",
            "facts",
            "outcomes",
            "settling",
            "owing",
            "obligations",
            "results",
            "facts",
            "telling",
            "ticks",
            "rules",
            "turns",
            "pushed",
            "model",
        ),
        "delivery": ("pushing", "turns", "rules", "pushed", "model"),
        "tracking": ("obligations", "rules", "turns", "pushed", "model"),
        "pruning": (*INSIDE["pruning"], "obligations", "ticks"),
        # What became of messages, by version of a template.
        "measuring": (),
    },
    "org": {
        "roll": ("model",),
        "registry": ("model", "roll"),
        "reader": (*INSIDE["reader"], "registry"),
        # The writer in three files: what a change is made of, whole branches, and single seats with their agents.
        "seats": (*INSIDE["writer"], "registry"),
        "tree": (*INSIDE["writer"], "registry", "seats"),
        "writer": (*INSIDE["writer"], "registry", "seats", "tree"),
    },
    "access": {
        "memory": ("model",),
        "reader": (*INSIDE["reader"], "memory"),
        # The writer in two files: persons and invitations, and all that is a secret.
        "people": ("rules", "model", "memory"),
        "writer": (*INSIDE["writer"], "memory", "people"),
    },
    "memory": {
        # Which shelves somebody may read is decided by the rules, for every read anew.
        "reader": (*INSIDE["reader"], "rules"),
    },
    "threads": {
        # What is pure: base instructions as a value, the log folded into a row, the log as a model sees it, how it is
        # shown, what is counted of it, and whether what comes under a used key is the same again.
        "bases": (),
        "fold": ("bases", "model"),
        "counting": (),
        "sight": ("model",),
        "items": ("model",),
        "repeats": ("model",),
        # One change of several logs, and what comes of ends and letters; the writers make commands of them: one for
        # clients, one for engines, one for agents that work together. `hands` makes all of them for the server.
        "steps": ("bases", "counting", "fold", "items", "rules", "model"),
        "acts": ("steps", "rules", "model"),
        "writer": ("acts", "bases", "fold", "repeats", "steps", *INSIDE["writer"]),
        "turning": ("acts", "items", "steps", "rules", "model"),
        "calling": ("counting", "steps", "turning", "rules", "model"),
        "spawning": ("acts", "bases", "calling", "steps", "writer", "rules", "model"),
        "reader": (*INSIDE["reader"], "items", "rules", "sight"),
        "waiting": ("calling", "reader", "steps", "rules", "model"),
        # Writes in the transaction in which a seat is removed, by the same acts.
        "hearing": ("acts", "steps", "rules", "model"),
        "hands": (
            *("acts", "calling", "counting", "hearing", "pruning"),
            *("reader", "spawning", "turning", "waiting", "writer"),
        ),
    },
    "instructions": {
        # The tree, who reads it, who runs it.
        "syntax": (),
        "language": ("syntax",),
        "script": ("language", "syntax", "rules", "model"),
        # What comes with Molecule, and everything in memory.
        "catalogue": ("model",),
        "seeds": ("catalogue", "rules", "model"),
        "render": ("catalogue", "script", "syntax", "rules", "model"),
        "reader": (*INSIDE["reader"], "catalogue"),
        # Whether a template may be saved, and what it would say.
        "checking": ("catalogue", "render", "rules", "script", "model"),
        # Whether a canary does worse: arithmetic. Trials: the writer's second hand.
        "measuring": (),
        "trials": ("catalogue", "checking", "measuring", "model"),
        "writer": (*INSIDE["writer"], "catalogue", "checking", "seeds"),
        "layer": ("catalogue", "checking", "model", "reader", "render", "trials", "writer"),
    },
}

# The files that together are the one writer of a slice: only they may name statements that write.
HANDS: dict[str, tuple[str, ...]] = {
    "delegations": ("writer", "beginning", "hearing", "steps", "pruning"),
    "approvals": ("writer", "hearing", "steps", "pruning"),
    "messages": (
        "writer",
        "chains",
        "broadcasts",
        "ticks",
        "settling",
        "handing",
        "letters",
        "entering",
        "results",
        "patience",
        "askers",
        "outcomes",
        "pushing",
        "telling",
        "filing",
        "obligations",
        "owing",
        "replies",
        "silence",
        "pruning",
    ),
    "instructions": ("writer", "trials"),
    "org": ("writer", "seats", "pruning"),
    "access": ("writer", "people", "pruning"),
    "memory": ("writer", "pruning"),
    "prompts": ("writer", "pruning"),
    "threads": ("writer", "hearing", "acts", "steps", "turning", "spawning", "calling", "waiting", "pruning"),
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
