"""Third parties behind their modules, and imports hidden in functions."""

from pathlib import Path

import pytest

from tests.architecture.guards.function_imports import find_function_imports
from tests.architecture.guards.third_party import find_misplaced_third_parties
from tests.architecture.repository import SOURCES, write_tree

PERMITTED = [
    ("server/listener.py", "uvloop"),
    ("api/http/websocket_protocol.py", "websockets"),
    ("api/http/multipart.py", "multipart"),
    ("api/http/connection.py", "httptools"),
    ("store/sqlite/store.py", "apsw"),
    ("common/net/safe_fetch.py", "httptools"),
    ("client/api.py", "httpx2"),
    ("cli/main.py", "click"),
    ("agent/mailbox/inbox.py", "msgspec"),
    ("messages/model.py", "msgspec"),
    ("langchain.py", "langchain_core"),
    ("agent/main.py", "asyncio"),
]

MISPLACED = [
    ("client/stream.py", "websockets", "only api.http.websocket_protocol, agent.host.codex_session may"),
    ("store/sqlite/store.py", "uvloop", "only server.listener may"),
    ("common/text.py", "httptools", "only api.http.{connection,request_target}, common.net.safe_fetch may"),
    ("messages/files/uploads.py", "multipart", "only api.http.multipart may"),
    ("messages/reader.py", "apsw", "only store may"),
    ("cli/backup.py", "sqlite3", "only store may"),
    ("server/process.py", "asyncpg", "only store.postgres may"),
    ("store/journal.py", "nats", "only store.nats may"),
    ("common/ids.py", "httpx2", "only client.api may"),
    ("agent/main.py", "click", "only cli may"),
    ("agent/prompt/loader.py", "yaml", "only agent.prompt.safe_yaml may"),
    ("agent/prompt/home.py", "watchfiles", "only agent.prompt.file_watch may"),
    ("agent/main.py", "langchain_core", "only langchain may"),
    ("agent/bridges/acp/driver.py", "acp", "only agent.acp_library may"),
    ("agent/engines/models.py", "any_llm", "only agent.engines.any_llm_model may"),
    ("api/canvas.py", "opentelemetry", "only common.tracing may"),
    ("api/canvas.py", "starlette", "it has no row in the table of third parties"),
    ("instructions/render.py", "jinja2", "it has no row in the table of third parties"),
]


def test_the_real_tree_keeps_third_parties_behind_their_modules() -> None:
    assert find_misplaced_third_parties(SOURCES) == []


@pytest.mark.parametrize(("path", "package"), PERMITTED)
def test_a_permitted_third_party_gives_no_finding(tmp_path: Path, path: str, package: str) -> None:
    tree = write_tree(tmp_path, {path: f"from {package}.inner import thing\n"})
    assert find_misplaced_third_parties(tree) == []


@pytest.mark.parametrize(("path", "package", "fault"), MISPLACED)
def test_a_misplaced_third_party_is_the_one_finding(tmp_path: Path, path: str, package: str, fault: str) -> None:
    tree = write_tree(tmp_path, {path: f"\nimport {package}.inner\n"})
    module = path.removesuffix(".py").replace("/", ".")
    assert find_misplaced_third_parties(tree) == [f"src/molecule_core/{path}:2 {module} imports {package}: {fault}"]


@pytest.mark.parametrize(
    "text",
    [
        "def late():\n    from nats import client",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nats import client",
        "import importlib\ndef late():\n    return importlib.import_module('nats.client')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    if 1:\n        import nats",
        "import msgspec",
        "import importlib\nHELD = importlib.import_module(name)",
    ],
)
def test_an_optional_package_imported_lazily_gives_no_finding(tmp_path: Path, text: str) -> None:
    tree = write_tree(tmp_path, {"store/nats.py": text, "store/bus.py": "from molecule_core.store import nats\n"})
    assert find_misplaced_third_parties(tree) == []


@pytest.mark.parametrize(
    "text",
    [
        "from nats import client",
        "try:\n    import nats\nexcept ImportError:\n    pass",
        "def early(): ...\nimport nats",
        "class Held:\n    import nats",
        "import importlib\nHELD = importlib.import_module('nats')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    import nats",
    ],
)
def test_an_optional_package_imported_on_load_is_a_finding(tmp_path: Path, text: str) -> None:
    tree = write_tree(tmp_path, {"store/nats.py": text, "store/bus.py": "from molecule_core.store import nats\n"})
    [finding] = find_misplaced_third_parties(tree)
    assert finding.endswith(
        "store.nats imports nats on load: "
        "import an optional package in a function, or in a module that is imported lazily"
    )


def test_a_module_that_is_imported_lazily_may_import_its_optional_package(tmp_path: Path) -> None:
    lazy = "from molecule_core.store.postgres import store"
    files = {
        "store/postgres/store.py": "import asyncpg\n",
        "server/process.py": f"def open_store():\n    {lazy}\n",
        "store/database.py": f"TYPE_CHECKING = 0\nif TYPE_CHECKING:\n    {lazy}\n",
    }
    assert find_misplaced_third_parties(write_tree(tmp_path, files)) == []


def test_an_init_that_imports_an_optional_package_is_loaded_by_its_files(tmp_path: Path) -> None:
    files = {
        "store/postgres/__init__.py": "import asyncpg\n",
        "store/postgres/notify.py": "",
        "api/live/hub.py": "from molecule_core.store.postgres.notify import Notify\n",
    }
    [finding] = find_misplaced_third_parties(write_tree(tmp_path, files))
    assert finding.startswith("src/molecule_core/store/postgres/__init__.py:1 store.postgres imports asyncpg on load: ")


def test_the_real_tree_hides_no_import_in_a_function() -> None:
    assert find_function_imports(SOURCES) == []


def test_permitted_lazy_imports_give_no_finding(tmp_path: Path) -> None:
    files = {
        "cli/__init__.py": "def serve():\n    from molecule_core.cli import serve\n",
        "cli/serve.py": "",
        "server/process.py": "def open_store():\n    from molecule_core.store.postgres.store import Store\n",
        "store/postgres/store.py": "",
        "store/bus.py": "def connect():\n    import nats\n",
        "wire/schemas/events.py": "def early(): ...\nimport molecule_core.common.ids\n",
    }
    assert find_function_imports(write_tree(tmp_path, files)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def late():\n    from molecule_core.common import ids",
        "async def late():\n    import molecule_core.common.ids",
        "class Late:\n    def load(self):\n        from ...common import ids",
        "import importlib\nlate = lambda: importlib.import_module('molecule_core.common.ids')",
    ],
)
def test_an_own_import_inside_a_function_is_a_finding(tmp_path: Path, text: str) -> None:
    tree = write_tree(tmp_path, {"wire/schemas/events.py": text, "common/ids.py": ""})
    [finding] = find_function_imports(tree)
    assert finding.endswith(" wire.schemas.events imports common.ids inside a function")


@pytest.mark.parametrize(
    ("path", "imported"), [("server/process.py", "store.sqlite"), ("cli/serve.py", "server.process")]
)
def test_a_lazy_import_of_anything_else_is_a_finding(tmp_path: Path, path: str, imported: str) -> None:
    files = {path: f"def late():\n    import molecule_core.{imported}\n"}
    module = path.removesuffix(".py").replace("/", ".")
    assert find_function_imports(write_tree(tmp_path, files)) == [
        f"src/molecule_core/{path}:2 {module} imports {imported} inside a function"
    ]
