"""Which modules may import each third-party package, by the patterns of layers.py. An unlisted package is an error."""

from dataclasses import dataclass

from tests.architecture.layers import TABLE

ANYWHERE = tuple(row.package for row in TABLE)


@dataclass(frozen=True)
class Permission:
    """The modules that may import a package; `lazily` if it is optional and must not be imported when they load."""

    modules: tuple[str, ...]
    lazily: bool = False


DRIVERS = Permission(("store",))

THIRD_PARTIES = {
    # common.net: it parses HTTP and knows no web server: docs/decisions/0011-safe-fetch.md
    "httptools": Permission(("api.http.{connection,request_target}", "common.net.safe_fetch")),
    "uvloop": Permission(("server.listener",)),
    "websockets": Permission(("api.http.websocket_protocol", "agent.host.codex_session")),
    "cronsim": Permission(("schedules.cron",)),
    "jsonschema_rs": Permission(("delegations.json_schema",)),
    "multipart": Permission(("api.http.multipart",)),
    "apsw": DRIVERS,
    "sqlite3": DRIVERS,  # of the standard library, but a driver like the others
    "asyncpg": Permission(("store.postgres",), lazily=True),
    "nats": Permission(("store.nats",), lazily=True),
    "httpx2": Permission(("client.api",)),
    "click": Permission(("cli",)),
    "yaml": Permission(("agent.prompt.safe_yaml",)),
    "tomlkit": Permission(("client.toml_edit",)),
    "watchfiles": Permission(("agent.prompt.file_watch",)),
    "langchain_core": Permission(("langchain",), lazily=True),
    "opentelemetry": Permission(("common.tracing",), lazily=True),
    "acp": Permission(("agent.acp_library",), lazily=True),
    "jwt": Permission(("api.a2a.card_signatures", "a2a_agents.card_signatures"), lazily=True),
    "any_llm": Permission(("agent.engines.any_llm_model",), lazily=True),
    "msgspec": Permission(ANYWHERE),
}
