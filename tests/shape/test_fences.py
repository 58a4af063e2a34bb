"""Third parties behind their doors, and imports hidden in functions."""

from pathlib import Path

import pytest

from tests.shape.guards.fences import find_open_fences
from tests.shape.guards.hidden_imports import find_hidden_imports
from tests.shape.planting import SOURCES, plant

AT_HOME = [
    ("edges/app.py", "starlette"),
    ("serving.py", "uvloop"),
    ("edges/live.py", "websockets"),
    ("edges/attachments.py", "python_multipart"),
    ("store/sqlite.py", "apsw"),
    ("ground/net.py", "httpx2"),
    ("ground/net.py", "httptools"),
    ("client/api.py", "httpx2"),
    ("instructions/language.py", "minijinja"),
    ("cli/main.py", "click"),
    ("agent/inbox.py", "msgspec"),
    ("messages/model.py", "msgspec"),
    ("langchain.py", "langchain_core"),
    ("agent/main.py", "asyncio"),
]

ABROAD = [
    ("agent/main.py", "starlette", "only edges, server, serving may"),
    ("serving.py", "uvicorn", "only nobody may"),
    ("client/stream.py", "websockets", "only edges, server, serving may"),
    ("store/sqlite.py", "uvloop", "only edges, server, serving may"),
    ("ground/text.py", "httptools", "only edges, server, serving, ground.net may"),
    ("messages/attachments.py", "multipart", "only edges, server, serving may"),
    ("messages/reader.py", "apsw", "only store may"),
    ("cli/backup.py", "sqlite3", "only store may"),
    ("server.py", "asyncpg", "only store may"),
    ("store/journal.py", "nats", "only store.nats may"),
    ("wire/a2a.py", "a2a", "only edges.a2a may"),
    ("ground/ids.py", "httpx2", "only ground.net, client may"),
    ("agent/main.py", "httpx", "only ground.net, client may"),
    ("instructions/render.py", "minijinja", "only instructions.language may"),
    ("agent/prompt.py", "jinja2", "only instructions.language may"),
    ("agent/toolcli.py", "click", "only cli may"),
    ("edges/app.py", "pydantic", "only nobody may"),
    ("agent/tools.py", "langchain_core", "only langchain may"),
    ("agent/engines/models.py", "any_llm", "only agent.engines.library may"),
    ("edges/app.py", "opentelemetry", "only ground may"),
    ("edges/app.py", "requests", "it has no row in the table of fences"),
]


def test_the_real_tree_keeps_third_parties_behind_their_doors() -> None:
    assert find_open_fences(SOURCES) == []


@pytest.mark.parametrize(("path", "party"), AT_HOME)
def test_a_third_party_behind_its_door_gives_no_finding(tmp_path: Path, path: str, party: str) -> None:
    assert find_open_fences(plant(tmp_path, {path: f"from {party}.inner import thing\n"})) == []


@pytest.mark.parametrize(("path", "party", "fault"), ABROAD)
def test_a_third_party_outside_its_door_is_the_one_finding(tmp_path: Path, path: str, party: str, fault: str) -> None:
    tree = plant(tmp_path, {path: f"\nimport {party}.inner\n"})
    module = path.removesuffix(".py").replace("/", ".")
    assert find_open_fences(tree) == [f"src/molecule_core/{path}:2 {module} imports {party}: {fault}"]


@pytest.mark.parametrize(
    "text",
    [
        "def late():\n    from a2a import client",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a2a import client",
        "import importlib\ndef late():\n    return importlib.import_module('a2a.client')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    if 1:\n        import a2a",
        "import msgspec",
        "import importlib\nHELD = importlib.import_module(name)",
    ],
)
def test_an_optional_party_asked_for_late_gives_no_finding(tmp_path: Path, text: str) -> None:
    tree = plant(tmp_path, {"edges/a2a.py": text, "edges/app.py": "from molecule_core.edges import a2a\n"})
    assert find_open_fences(tree) == []


@pytest.mark.parametrize(
    "text",
    [
        "from a2a import client",
        "try:\n    import a2a\nexcept ImportError:\n    pass",
        "def early(): ...\nimport a2a",
        "class Held:\n    import a2a",
        "import importlib\nHELD = importlib.import_module('a2a')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    import a2a",
    ],
)
def test_an_optional_party_loaded_at_once_is_a_finding(tmp_path: Path, text: str) -> None:
    tree = plant(tmp_path, {"edges/a2a.py": text, "edges/app.py": "from molecule_core.edges import a2a\n"})
    [finding] = find_open_fences(tree)
    assert finding.endswith(
        "edges.a2a imports a2a on load: import what is optional in a function, or in a module nobody imports on load"
    )


def test_a_module_that_nobody_loads_may_load_its_optional_party(tmp_path: Path) -> None:
    files = {
        "store/postgres.py": "import asyncpg\n",
        "standing.py": "def open_store():\n    from molecule_core.store import postgres\n",
        "store/sqlite.py": "TYPE_CHECKING = 0\nif TYPE_CHECKING:\n    from molecule_core.store import postgres\n",
    }
    assert find_open_fences(plant(tmp_path, files)) == []


def test_a_package_door_that_holds_an_optional_party_is_loaded_by_its_files(tmp_path: Path) -> None:
    files = {
        "store/__init__.py": "import asyncpg\n",
        "store/journal.py": "",
        "edges/live.py": "from molecule_core.store.journal import Journal\n",
    }
    [finding] = find_open_fences(plant(tmp_path, files))
    assert finding.startswith("src/molecule_core/store/__init__.py:1 store imports asyncpg on load: ")


def test_the_real_tree_hides_no_import_in_a_function() -> None:
    assert find_hidden_imports(SOURCES) == []


def test_late_imports_at_the_two_doors_give_no_finding(tmp_path: Path) -> None:
    files = {
        "cli/main.py": "def serve():\n    from molecule_core import server\n",
        "standing.py": "def open_store():\n    from molecule_core.store.postgres import Postgres\n",
        "store/postgres.py": "",
        "edges/a2a.py": "def late():\n    import a2a\n",
        "wire/events.py": "def early(): ...\nimport molecule_core.ground.ids\n",
    }
    assert find_hidden_imports(plant(tmp_path, files)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def late():\n    from molecule_core.ground import ids",
        "async def late():\n    import molecule_core.ground.ids",
        "class Late:\n    def load(self):\n        from ..ground import ids",
        "import importlib\nlate = lambda: importlib.import_module('molecule_core.ground.ids')",
    ],
)
def test_an_own_import_inside_a_function_is_a_finding(tmp_path: Path, text: str) -> None:
    tree = plant(tmp_path, {"wire/events.py": text, "ground/ids.py": ""})
    [finding] = find_hidden_imports(tree)
    assert finding.endswith(" wire.events imports ground.ids inside a function")


def test_the_server_may_load_nothing_but_the_engine_late(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"standing.py": "def wire():\n    from molecule_core.store.sqlite import SQLite\n"})
    (finding,) = find_hidden_imports(tree)
    assert finding == "src/molecule_core/standing.py:2 standing imports store.sqlite inside a function"
