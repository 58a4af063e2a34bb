"""Who may import whom, as data: the table of docs/explanation/architecture.md. `render_table()` prints it.

A pattern names a module and everything below it: `store`, `store.database`, `store.{sqlite,postgres}.backup`. The head
`nouns` stands for each noun. A module belongs to the row with the longest pattern that matches it, and a module that no
row matches is an error.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

NOUNS = (
    *("search", "delegations", "approvals", "threads", "live_turns", "messages", "memory", "prompts", "org"),
    *("instructions", "access", "runners", "a2a_agents", "webhooks", "budgets", "usage", "schedules"),
)

# Files beside the packages that are not code.
OTHER_FILES = {
    "py.typed": "marks the package as typed for type checkers",
    "canvas_assets": "the built page, made from canvas/ and not in the repository",
    "html_docs": "the pages of docs/ as HTML, made by scripts/html_docs.py and not in the repository",
}


@dataclass(frozen=True)
class Row:
    """A package and all it may import. It is part of its own list only where its modules may import each other."""

    package: str
    may_import: tuple[str, ...]


BASE = ("store", "wire", "common")

# What the REST routes and protocols may import of the nouns: not their transitions, workers, caches and retention.
PUBLIC_MODULES = (
    "nouns.{model,rules,reader,writer,errors}",
    "delegations.scopes",
    "access.{oauth_grants,oauth_rules}",
    "messages.{chains.model,delivery_state,files,replies,template_outcomes}",
    "messages.{cancellation,task_reader}",
    "messages.{inbox.claims,obligations.instructions,obligations.reply_handles}",
    "messages.delivery.{dead_letters,push_policy,reply_waiters,status_reader}",
    "delegations.acceptance_rules",
    "org.limit_writer",
    "threads.{agent_writer,base_instructions,engine_writer,waits}",
    "instructions.{canaries,render,services,validation}",
)

TABLE = (
    Row("__init__", ()),
    # `python -m molecule_core`: hosts start the command this way from any folder.
    Row("__main__", ("entry",)),
    # The console command: `molecule mcp` starts without the command line, which takes longer to import; so do hooks.
    Row("entry", ("cli", "agent.main", "client.host_hook")),
    # store: backup, restore and doctor work without a server.
    Row(
        "cli",
        (
            *("cli", "server", "agent", "demo", "client", "tools", "wire", "common"),
            *("store.{database,backup_folder}", "store.{sqlite,postgres}.backup", "store.postgres.clock_skew"),
        ),
    ),
    Row("server", ("server", "api", "views", "nouns", *BASE)),
    Row("api", ("api", "views", *PUBLIC_MODULES, "tools", "wire", "common")),
    # The HTTP and WebSocket server knows neither nouns nor callers, nor does the adapter for other servers.
    Row("api.asgi", ("api.asgi", "api.http", "common")),
    Row("api.http", ("api.http", "common")),
    Row(
        "views",
        ("views", "nouns.{reader,model}", "messages.task_reader", "store.{database,journal,wakeups}", "wire", "common"),
    ),
    Row("nouns.__init__", ()),
    # What it indexes is read by its own statements from the tables of these nouns.
    Row(
        "search",
        (
            *("search", "messages.{chat_view,model}", "delegations.model", "threads.model", "memory.model"),
            *("org.{model,reader}", *BASE),
        ),
    ),
    Row("schedules", ("schedules", "delegations", "messages", "org", *BASE)),
    # Runners run the commands that check answers.
    Row("delegations", ("delegations", "messages", "runners.{checks,model}", "org", *BASE)),
    Row("approvals", ("approvals", "messages", "budgets", "org", *BASE)),
    Row("threads", ("threads", "messages", "budgets", "usage", "org", *BASE)),
    Row("live_turns", ("live_turns", "org.{model,reader}", *BASE)),
    Row("messages", ("messages", "instructions", "a2a_agents", "budgets", "org", "access.model", *BASE)),
    Row("a2a_agents", ("a2a_agents", "org", *BASE)),
    Row("webhooks", ("webhooks", "messages.delivery.push_signature", "org.{model,reader}", *BASE)),
    Row("runners", ("runners", "access.writer", "org.{model,reader}", *BASE)),
    Row("memory", ("memory", "org.{model,reader,rules}", *BASE)),
    Row("prompts", ("prompts", "org.{model,reader,rules}", *BASE)),
    Row("org", ("org", "access", *BASE)),
    Row("instructions", ("instructions", *BASE)),
    Row("access", ("access", *BASE)),
    Row("usage", ("usage", *BASE)),
    # The event of a recorded usage.
    Row("budgets", ("budgets", "usage.model", *BASE)),
    Row("agent", ("agent", "client", "tools", "wire", "common")),
    Row("demo", ("demo", "client", "tools", "wire", "common")),
    # agent: the identity of an agent and the texts of its errors are read in one place.
    Row("langchain", ("agent.{config,client.retry}", "client", "tools", "wire", "common")),
    Row("client", ("client", "tools", "wire", "common")),
    Row("tools", ("tools", "wire", "common")),
    Row("store", ("store", "wire.schemas.events", "common")),
    Row("wire", ("wire", "common")),
    Row("common", ("common",)),
)

Pair = tuple[str, str]  # (importer, imported)


def expand(pattern: str) -> Iterator[str]:
    """Spell out `nouns.{reader,model}` as `access.reader`, `access.model` and so on."""
    if braces := re.search(r"\{([^{}]+)\}", pattern):
        for part in braces[1].split(","):
            yield from expand(pattern[: braces.start()] + part + pattern[braces.end() :])
        return
    head, dot, rest = pattern.partition(".")
    for first in NOUNS if head == "nouns" else (head,):
        yield f"{first}{dot}{rest}"


def matches(path: str, pattern: str) -> bool:
    """Return whether the pattern means the module at this dotted path."""
    return any(path == one or path.startswith(f"{one}.") for one in expand(pattern))


def find_row(path: str, table: tuple[Row, ...] = TABLE) -> Row | None:
    """Return the row with the longest pattern that matches the module, or None."""
    found = [(len(one), row) for row in table for one in expand(row.package) if matches(path, one)]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def top_level_names(table: tuple[Row, ...] = TABLE) -> set[str]:
    """Return the names of packages and modules that may exist directly below molecule_core."""
    return {one.split(".")[0] for row in table for one in expand(row.package)}


def may_import_package(importer: str, imported: str, table: tuple[Row, ...] = TABLE) -> bool:
    """Return whether any module of one top-level package may import any module of the other."""
    rows = [row for row in table if any(one.split(".")[0] == importer for one in expand(row.package))]
    return any(one.split(".")[0] == imported for row in rows for p in row.may_import for one in expand(p))


def render_table(table: tuple[Row, ...] = TABLE) -> str:
    """Render the table as text, one line per row."""
    width = max(len(row.package) for row in table)
    return "\n".join(f"{row.package:<{width}}  {', '.join(row.may_import) or 'nothing'}" for row in table)
