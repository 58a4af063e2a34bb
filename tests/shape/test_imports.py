"""Who may import whom."""

from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.shape.guards.imports import find_wrong_imports
from tests.shape.planting import SOURCES, plant
from tests.shape.rooms import SLICES, TABLE, heads, may_import_room, printed, row_of

# Every arrow that the architecture draws, at its finest grain.
ALLOWED = [
    ("cli/serve.py", "server"),
    ("cli/up.py", "demo.company"),
    ("cli/peers.py", "agent.tools"),
    ("cli/peers.py", "client.api"),
    ("server.py", "edges.app"),
    ("server.py", "views.snapshot"),
    ("server.py", "messages.delivery"),
    ("server.py", "store.sqlite"),
    ("edges/app.py", "edges.limits"),
    ("edges/app.py", "views.snapshot"),
    ("edges/messages.py", "messages.writer"),
    ("edges/messages.py", "messages.reader"),
    ("edges/messages.py", "messages.rules"),
    ("edges/messages.py", "messages.model"),
    ("edges/live.py", "store.journal"),
    ("edges/events.py", "store.journal"),
    ("edges/mcp.py", "wire.mcp"),
    ("views/snapshot.py", "org.reader"),
    ("views/snapshot.py", "approvals.model"),
    ("views/preview.py", "instructions.render"),
    ("views/snapshot.py", "store.database"),
    ("delegations/writer.py", "messages.writer"),
    ("approvals/writer.py", "org.rules"),
    ("threads/waiting.py", "messages.reader"),
    ("messages/writer.py", "instructions.writer"),
    ("messages/delivery.py", "instructions.render"),
    ("messages/reader.py", "instructions.reader"),
    ("messages/rules.py", "org.rules"),
    ("memory/writer.py", "org.rules"),
    ("memory/reader.py", "org.reader"),
    ("org/writer.py", "access.writer"),
    ("org/writer.py", "org.registry"),
    ("org/reader.py", "org.registry"),
    ("org/registry.py", "org.model"),
    ("access/writer.py", "store.database"),
    ("instructions/writer.py", "wire.events"),
    ("agent/main.py", "client.api"),
    ("demo/company.py", "client.api"),
    ("langchain.py", "client.api"),
    ("client/api.py", "wire.envelope"),
    ("store/journal.py", "wire.events"),
    ("store/sqlite.py", "ground.errors"),
    ("wire/events.py", "ground.errors"),
    ("messages/writer.py", "messages.rules"),
    ("messages/writer.py", "messages.reader"),
    ("messages/writer.py", "messages.model"),
    ("messages/rules.py", "messages.model"),
    ("messages/reader.py", "messages.model"),
]

# An arrow that would be a mistake, for every room and for every finer grain.
FORBIDDEN = [
    ("cli/serve.py", "store.sqlite"),
    ("cli/serve.py", "messages.writer"),
    ("server.py", "agent.main"),
    ("server.py", "cli.serve"),
    ("edges/app.py", "store.database"),
    ("edges/app.py", "store.journal"),
    ("edges/live.py", "store.sqlite"),
    ("edges/events.py", "store.database"),
    ("edges/messages.py", "messages.delivery"),
    ("edges/app.py", "client.api"),
    ("edges/app.py", "server"),
    ("views/snapshot.py", "messages.writer"),
    ("views/snapshot.py", "messages.rules"),
    ("views/snapshot.py", "instructions.language"),
    ("views/snapshot.py", "store.sqlite"),
    ("views/snapshot.py", "edges.app"),
    ("delegations/writer.py", "approvals.writer"),
    ("approvals/writer.py", "threads.writer"),
    ("threads/writer.py", "delegations.reader"),
    ("delegations/writer.py", "instructions.render"),
    ("delegations/writer.py", "access.reader"),
    ("messages/writer.py", "delegations.writer"),
    ("messages/writer.py", "instructions.language"),
    ("messages/writer.py", "instructions.rules"),
    ("messages/writer.py", "access.writer"),
    ("memory/writer.py", "org.writer"),
    ("memory/writer.py", "messages.writer"),
    ("org/writer.py", "messages.writer"),
    ("org/writer.py", "views.snapshot"),
    ("org/registry.py", "org.writer"),
    ("org/rules.py", "org.registry"),
    ("edges/workspaces.py", "org.registry"),
    ("instructions/writer.py", "org.reader"),
    ("access/writer.py", "org.reader"),
    ("agent/main.py", "server"),
    ("agent/main.py", "store.database"),
    ("agent/main.py", "edges.mcp"),
    ("agent/main.py", "messages.model"),
    ("demo/company.py", "agent.main"),
    ("langchain.py", "agent.tools"),
    ("client/api.py", "agent.main"),
    ("store/journal.py", "wire.envelope"),
    ("store/journal.py", "messages.model"),
    ("wire/events.py", "store.journal"),
    ("wire/events.py", "client.api"),
    ("ground/ids.py", "wire.events"),
    ("messages/rules.py", "messages.writer"),
    ("messages/rules.py", "messages.reader"),
    ("messages/reader.py", "messages.rules"),
    ("messages/reader.py", "messages.writer"),
    ("messages/model.py", "messages.rules"),
    ("messages/model.py", "messages.reader"),
    ("messages/writer.py", "messages.delivery"),
    ("messages/__init__.py", "messages.writer"),
    ("instructions/language.py", "instructions.render"),
    ("threads/waiting.py", "threads.writer"),
]


def name_of(path: str) -> str:
    """The module of a file, `edges.app` for edges/app.py."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def file_of(module: str) -> str:
    """The file of a module."""
    return module.replace(".", "/") + ".py"


@requirement("A1")
def test_the_real_tree_imports_only_what_the_table_allows() -> None:
    assert find_wrong_imports(SOURCES) == []


@pytest.mark.parametrize(("importer", "imported"), ALLOWED)
def test_an_arrow_of_the_architecture_gives_no_finding(tmp_path: Path, importer: str, imported: str) -> None:
    text = f"from molecule_core.{imported} import thing\n"
    tree = plant(tmp_path, {file_of(imported): "thing = 1\n", importer: text})
    assert find_wrong_imports(tree) == []


@pytest.mark.parametrize(("importer", "imported"), FORBIDDEN)
def test_an_arrow_against_the_architecture_is_the_one_finding(tmp_path: Path, importer: str, imported: str) -> None:
    text = f'"""Planted."""\nfrom molecule_core.{imported} import thing\n'
    tree = plant(tmp_path, {file_of(imported): "thing = 1\n", importer: text})
    [finding] = find_wrong_imports(tree)
    assert finding.startswith(f"src/molecule_core/{importer}:2 {name_of(importer)} imports {imported}: ")


def test_a_finding_names_file_line_room_and_what_is_allowed(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"views/snapshot.py": "\n\nimport molecule_core.store.sqlite\n"})
    assert find_wrong_imports(tree) == [
        "src/molecule_core/views/snapshot.py:3 views.snapshot imports store.sqlite: views may import only "
        "views, slices.{reader,model}, instructions.render, store.{database,journal,wakeups}, wire, ground"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "from molecule_core.store import sqlite",
        "from molecule_core.store.sqlite import Store as Hidden",
        "import molecule_core.store.sqlite as hidden",
        "from ..store import sqlite",
        "from ..store.sqlite import Store",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING: from molecule_core.store import sqlite",
        "try:\n    from molecule_core.store import sqlite\nexcept ImportError:\n    pass",
        "def late():\n    from molecule_core.store import sqlite",
        "class Late:\n    async def load(self):\n        import molecule_core.store.sqlite",
        "import importlib\nimportlib.import_module('molecule_core.store.sqlite')",
        "from importlib import import_module\nimport_module('..store.sqlite', __package__)",
        "__import__('molecule_core.store.sqlite')",
        "import importlib\nSTORE = getattr(importlib.import_module('molecule_core.store.sqlite'), 'Store')",
        "import importlib\nif importlib.import_module('molecule_core.store.sqlite'):\n    pass",
    ],
)
def test_every_way_to_write_an_import_is_seen(tmp_path: Path, text: str) -> None:
    tree = plant(tmp_path, {"edges/app.py": text, "store/sqlite.py": ""})
    [finding] = find_wrong_imports(tree)
    assert "edges.app imports store.sqlite: edges may import only " in finding


def test_a_package_imported_as_a_whole_is_judged_by_its_door(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"store/__init__.py": "", "edges/app.py": "from molecule_core import store\n"})
    [finding] = find_wrong_imports(tree)
    assert finding.startswith("src/molecule_core/edges/app.py:1 edges.app imports store: ")


def test_a_relative_import_in_a_door_counts_from_the_door(tmp_path: Path) -> None:
    files = {"wire/__init__.py": "from . import events\nfrom ..ground import ids\n", "wire/events.py": ""}
    assert find_wrong_imports(plant(tmp_path, {**files, "ground/ids.py": ""})) == []


def test_a_name_of_a_module_in_a_plain_string_is_no_import(tmp_path: Path) -> None:
    text = "def import_module(): ...\nimport_module()\nlog('molecule_core.store.sqlite')\n"
    assert find_wrong_imports(plant(tmp_path, {"edges/app.py": text})) == []


def test_the_package_itself_is_nobodys_to_import(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"__init__.py": "", "wire/events.py": "from molecule_core import __version__\n"})
    assert find_wrong_imports(tree) == [
        "src/molecule_core/wire/events.py:1 wire.events imports molecule_core: wire may import only wire, ground"
    ]


def test_the_door_of_a_slice_may_import_nothing_of_the_package(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"org/__init__.py": "import molecule_core.org.model\n"})
    assert find_wrong_imports(tree) == [
        "src/molecule_core/org/__init__.py:1 org imports org.model: org.__init__ may import only nothing"
    ]


def test_an_import_of_a_computed_name_is_a_finding(tmp_path: Path) -> None:
    text = "import importlib\nimportlib.import_module(f'molecule_core.{verb}')\n"
    assert find_wrong_imports(plant(tmp_path, {"cli/main.py": text})) == [
        "src/molecule_core/cli/main.py:2 cli.main imports a name that is computed: "
        "write it out, so that the table can be held against it"
    ]


def test_the_door_of_the_package_imports_nothing_at_all(tmp_path: Path) -> None:
    assert find_wrong_imports(plant(tmp_path, {"__init__.py": "import os\n"})) == [
        "src/molecule_core/__init__.py:1 molecule_core imports os: the package's own __init__.py imports nothing"
    ]


@pytest.mark.parametrize(
    ("folder", "file"), [("", "helpers.py"), ("util", "text.py"), ("canvas", "index.html"), ("", "a.txt")]
)
def test_a_file_or_folder_without_a_room_is_a_finding(tmp_path: Path, folder: str, file: str) -> None:
    tree = plant(tmp_path, {"ground/ids.py": "", f"{folder}/{file}".lstrip("/"): "import molecule_core.store"})
    assert find_wrong_imports(tree) == [f"src/molecule_core/{folder or file} belongs to no room of the table"]


def test_a_file_that_a_slice_does_not_have_is_a_finding(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"messages/helpers.py": "", "messages/writer.py": "", "py.typed": ""})
    assert find_wrong_imports(tree) == ["src/molecule_core/messages/helpers.py belongs to no room of the table"]


def test_a_name_that_only_begins_like_ours_is_a_third_party(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"ground/ids.py": "import molecule_core_plugins.store\n"})
    assert find_wrong_imports(tree) == []


def test_caches_and_hidden_files_are_not_part_of_the_house(tmp_path: Path) -> None:
    strangers = (".hidden", "__pycache__/a.py", "wire/node_modules/a.py", "org/__pycache__/b.py", "org/.cache/b.py")
    assert find_wrong_imports(plant(tmp_path, {"wire/events.py": "", **dict.fromkeys(strangers, "import (")})) == []


def test_a_tree_that_is_not_there_is_no_good_tree(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_wrong_imports(plant(tmp_path, {}))
    with pytest.raises(FileNotFoundError):
        find_wrong_imports(plant(tmp_path, {"store/schema.sql": ""}))


def test_the_table_names_every_room_of_the_architecture() -> None:
    assert heads() == {
        *(
            "__init__",
            "cli",
            "server",
            "serving",
            "standing",
            "demo",
            "edges",
            "views",
            "store",
            "wire",
            "client",
            "ground",
        ),
        *("__main__", "entry", "agent", "langchain", "delegations", "approvals", "threads", "messages"),
        *("memory", "prompts", "org", "instructions", "access"),
    }


def test_the_rooms_of_the_table_form_no_circle() -> None:
    below = {head: {other for other in heads() if other != head and may_import_room(head, other)} for head in heads()}
    while leaves := {head for head, others in below.items() if not others}:
        below = {head: others - leaves for head, others in below.items() if head not in leaves}
    assert below == {}


def test_the_most_exact_row_wins_for_each_file() -> None:
    rows = {spot: row_of(spot) for spot in ("edges.live", "edges.app", "messages.writer", "messages.helpers", "util")}
    assert {spot: row.room if row else None for spot, row in rows.items()} == {
        "edges.live": "edges.{live,events}",
        "edges.app": "edges",
        "messages.writer": "messages.writer",
        "messages.helpers": None,
        "util": None,
    }


def test_the_printed_table_has_a_line_for_each_row() -> None:
    lines = printed().splitlines()
    assert len(lines) == len(TABLE)
    assert [line.split()[0] for line in lines] == [row.room for row in TABLE]
    assert all(f"{name}.writer" in printed() for name in SLICES)
