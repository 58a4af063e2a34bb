"""Behind which door each third party stands. Patterns are those of rooms.py; a package without a row is a finding."""

from dataclasses import dataclass

from tests.shape.rooms import TABLE

ANYWHERE = tuple(row.room for row in TABLE)
NOWHERE: tuple[str, ...] = ()


@dataclass(frozen=True)
class Door:
    """Who may import a third party; `lazily` if it is optional, so that its absence breaks only who asks for it."""

    rooms: tuple[str, ...]
    lazily: bool = False


WEB = Door(("edges", "server", "serving"))
HTTP_CLIENT = Door(("ground.net", "client"))
TEMPLATES = Door(("instructions.language",))

FENCES = {
    "starlette": WEB,
    "uvicorn": Door(NOWHERE),  # it is what scripts/bench measures against: docs/decisions/0059-a-listener-of-our-own.md
    "httptools": Door((*WEB.rooms, "ground.net")),  # it parses HTTP and knows no web: docs/decisions/0011-safe-fetch.md
    "uvloop": WEB,
    "websockets": WEB,
    "multipart": WEB,
    "python_multipart": WEB,
    "apsw": Door(("store",)),
    "sqlite3": Door(("store",)),  # of the standard library, but a driver like the others
    "asyncpg": Door(("store",), lazily=True),
    "nats": Door(("store.nats",), lazily=True),
    "a2a": Door(("edges.a2a",), lazily=True),
    "httpx2": HTTP_CLIENT,
    "httpx": HTTP_CLIENT,
    "minijinja": TEMPLATES,
    "jinja2": TEMPLATES,
    "click": Door(("cli",)),
    "tomlkit": Door(("client.toml_edit",)),
    "yaml": Door(("agent.plain_yaml",)),
    "watchfiles": Door(("agent.watching",)),
    "pydantic": Door(NOWHERE),
    "langchain": Door(("langchain",), lazily=True),
    "langchain_core": Door(("langchain",), lazily=True),
    "opentelemetry": Door(("ground",), lazily=True),
    "any_llm": Door(("agent.engines.library",), lazily=True),
    "msgspec": Door(ANYWHERE),
}
