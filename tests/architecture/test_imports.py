"""Who may import whom, and the order of the files of a noun."""

from pathlib import Path

import pytest

from tests.architecture.guards.imports import find_wrong_imports
from tests.architecture.guards.noun_order import find_wrong_order
from tests.architecture.layers import (
    NOUNS,
    TABLE,
    find_row,
    may_import_package,
    render_table,
    top_level_names,
)
from tests.architecture.repository import SOURCES, write_tree
from tests.requirements import requirement

# Every kind of import that the architecture intends.
ALLOWED = [
    ("cli/serve.py", "server.composition"),
    ("cli/up.py", "demo.company"),
    ("cli/peers.py", "agent.main"),
    ("cli/peers.py", "client.api"),
    ("cli/backup.py", "store.sqlite.backup"),
    ("entry.py", "agent.main"),
    ("server/composition.py", "api.canvas"),
    ("server/composition.py", "views.snapshot"),
    ("server/composition.py", "messages.delivery.push_dispatcher"),
    ("server/process.py", "store.sqlite.store"),
    ("api/canvas.py", "views.snapshot"),
    ("api/messages/send.py", "messages.writer"),
    ("api/messages/send.py", "messages.reader"),
    ("api/messages/send.py", "messages.rules"),
    ("api/messages/send.py", "messages.model"),
    ("api/messages/send.py", "messages.replies"),
    ("api/messages/inbox.py", "messages.inbox.claims"),
    ("api/messages/delivery.py", "messages.delivery.status_reader"),
    ("api/threads/engines.py", "threads.engine_writer"),
    ("api/instructions/previews.py", "instructions.render"),
    ("api/mcp/routes.py", "tools.mcp_dispatcher"),
    ("api/http/connection.py", "common.errors"),
    ("views/snapshot.py", "org.reader"),
    ("views/snapshot.py", "approvals.model"),
    ("views/snapshot.py", "store.database"),
    ("delegations/writer.py", "messages.writer"),
    ("approvals/writer.py", "org.rules"),
    ("threads/waits.py", "messages.reader"),
    ("messages/obligations/instructions.py", "instructions.render"),
    ("messages/rules.py", "org.rules"),
    ("memory/reader.py", "org.reader"),
    ("org/writer.py", "access.writer"),
    ("access/writer.py", "store.database"),
    ("instructions/writer.py", "wire.schemas.events"),
    ("agent/host/runtime.py", "tools.mcp_dispatcher"),
    ("agent/main.py", "client.api"),
    ("demo/company.py", "client.api"),
    ("langchain.py", "agent.config"),
    ("client/tool_runner.py", "tools.spec"),
    ("store/journal.py", "wire.schemas.events"),
    ("store/sqlite/store.py", "common.errors"),
    ("tools/spec.py", "wire.schemas.inbox"),
    ("wire/schemas/events.py", "common.errors"),
]

# One import that would be a mistake, for every row and for every finer grain.
FORBIDDEN = [
    ("__main__.py", "server.composition"),
    ("entry.py", "agent.host.runtime"),
    ("cli/serve.py", "store.sqlite.store"),
    ("cli/serve.py", "store.journal"),
    ("cli/serve.py", "messages.writer"),
    ("server/composition.py", "agent.main"),
    ("server/composition.py", "cli.serve"),
    ("api/canvas.py", "store.database"),
    ("api/live/hub.py", "store.journal"),
    ("api/messages/inbox.py", "messages.inbox.acks"),
    ("api/messages/delivery.py", "messages.delivery.push_dispatcher"),
    ("api/messages/send.py", "messages.retention"),
    ("api/delegations/delegations.py", "delegations.transitions"),
    ("api/threads/threads.py", "threads.unit_of_work"),
    ("api/instructions/templates.py", "instructions.language.parser"),
    ("api/org/orgs.py", "org.registry"),
    ("api/canvas.py", "client.api"),
    ("api/canvas.py", "server.composition"),
    ("api/http/connection.py", "api.messages.send"),
    ("api/http/connection.py", "org.reader"),
    ("views/snapshot.py", "messages.writer"),
    ("views/snapshot.py", "messages.rules"),
    ("views/snapshot.py", "store.sqlite.store"),
    ("views/snapshot.py", "api.canvas"),
    ("delegations/writer.py", "approvals.writer"),
    ("delegations/writer.py", "instructions.render"),
    ("delegations/writer.py", "access.reader"),
    ("approvals/writer.py", "threads.writer"),
    ("threads/writer.py", "delegations.reader"),
    ("messages/writer.py", "delegations.writer"),
    ("messages/writer.py", "access.writer"),
    ("memory/writer.py", "org.writer"),
    ("memory/writer.py", "messages.writer"),
    ("prompts/writer.py", "org.registry"),
    ("org/writer.py", "messages.writer"),
    ("org/writer.py", "views.snapshot"),
    ("org/__init__.py", "org.model"),
    ("instructions/writer.py", "org.reader"),
    ("instructions/render.py", "tools.spec"),
    ("access/writer.py", "org.reader"),
    ("agent/main.py", "server.composition"),
    ("agent/main.py", "store.database"),
    ("agent/main.py", "api.mcp.routes"),
    ("agent/main.py", "messages.model"),
    ("demo/company.py", "agent.main"),
    ("langchain.py", "agent.tools.inbox_tools"),
    ("client/api.py", "agent.main"),
    ("tools/spec.py", "client.api"),
    ("store/journal.py", "wire.schemas.envelope"),
    ("store/journal.py", "messages.model"),
    ("wire/schemas/events.py", "store.journal"),
    ("wire/schemas/events.py", "tools.spec"),
    ("common/ids.py", "wire.schemas.events"),
]


def name_of(path: str) -> str:
    """Return the module of a file, `api.canvas` for api/canvas.py."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def file_of(module: str) -> str:
    """Return the file of a module."""
    return module.replace(".", "/") + ".py"


@requirement("A1")
def test_the_real_tree_imports_only_what_the_table_allows() -> None:
    assert find_wrong_imports(SOURCES) == []


@pytest.mark.parametrize(("importer", "imported"), ALLOWED)
def test_an_intended_import_gives_no_finding(tmp_path: Path, importer: str, imported: str) -> None:
    text = f"from molecule_core.{imported} import thing\n"
    tree = write_tree(tmp_path, {file_of(imported): "thing = 1\n", importer: text})
    assert find_wrong_imports(tree) == []


@pytest.mark.parametrize(("importer", "imported"), FORBIDDEN)
def test_an_import_against_the_table_is_the_one_finding(tmp_path: Path, importer: str, imported: str) -> None:
    text = f'"""Sample."""\nfrom molecule_core.{imported} import thing\n'
    tree = write_tree(tmp_path, {file_of(imported): "thing = 1\n", importer: text})
    [finding] = find_wrong_imports(tree)
    assert finding.startswith(f"src/molecule_core/{importer}:2 {name_of(importer)} imports {imported}: ")


def test_a_finding_names_file_line_row_and_what_is_allowed(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"views/snapshot.py": "\n\nimport molecule_core.store.sqlite\n"})
    assert find_wrong_imports(tree) == [
        "src/molecule_core/views/snapshot.py:3 views.snapshot imports store.sqlite: views may import only "
        "views, nouns.{reader,model}, messages.task_reader, store.{database,journal,wakeups}, wire, common"
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
    tree = write_tree(tmp_path, {"api/canvas.py": text, "store/sqlite.py": ""})
    [finding] = find_wrong_imports(tree)
    assert "api.canvas imports store.sqlite: api may import only " in finding


def test_a_package_imported_as_a_whole_is_judged_by_its_own_row(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"store/__init__.py": "", "api/canvas.py": "from molecule_core import store\n"})
    [finding] = find_wrong_imports(tree)
    assert finding.startswith("src/molecule_core/api/canvas.py:1 api.canvas imports store: ")


def test_a_relative_import_in_an_init_counts_from_its_package(tmp_path: Path) -> None:
    files = {"wire/__init__.py": "from . import events\nfrom ..common import ids\n", "wire/events.py": ""}
    assert find_wrong_imports(write_tree(tmp_path, {**files, "common/ids.py": ""})) == []


def test_a_name_of_a_module_in_a_plain_string_is_no_import(tmp_path: Path) -> None:
    text = "def import_module(): ...\nimport_module()\nlog('molecule_core.store.sqlite')\n"
    assert find_wrong_imports(write_tree(tmp_path, {"api/canvas.py": text})) == []


def test_no_module_may_import_the_package_itself(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"__init__.py": "", "wire/events.py": "from molecule_core import __version__\n"})
    assert find_wrong_imports(tree) == [
        "src/molecule_core/wire/events.py:1 wire.events imports molecule_core: wire may import only wire, common"
    ]


def test_the_init_of_a_noun_may_import_nothing_of_the_package(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"org/__init__.py": "import molecule_core.org.model\n"})
    assert find_wrong_imports(tree) == [
        "src/molecule_core/org/__init__.py:1 org imports org.model: nouns.__init__ may import only nothing"
    ]


def test_an_import_of_a_computed_name_is_a_finding(tmp_path: Path) -> None:
    text = "import importlib\nimportlib.import_module(f'molecule_core.{verb}')\n"
    assert find_wrong_imports(write_tree(tmp_path, {"cli/main.py": text})) == [
        "src/molecule_core/cli/main.py:2 cli.main imports a computed name: "
        "write it out, so that it can be checked against the table"
    ]


def test_the_init_of_the_package_imports_nothing_at_all(tmp_path: Path) -> None:
    assert find_wrong_imports(write_tree(tmp_path, {"__init__.py": "import os\n"})) == [
        "src/molecule_core/__init__.py:1 molecule_core imports os: the package's own __init__.py imports nothing"
    ]


@pytest.mark.parametrize(
    ("folder", "file"), [("", "helpers.py"), ("util", "text.py"), ("canvas", "index.html"), ("", "a.txt")]
)
def test_a_file_or_folder_without_a_row_is_a_finding(tmp_path: Path, folder: str, file: str) -> None:
    tree = write_tree(tmp_path, {"common/ids.py": "", f"{folder}/{file}".lstrip("/"): "import molecule_core.store"})
    assert find_wrong_imports(tree) == [f"src/molecule_core/{folder or file} has no row in the table"]


def test_a_name_that_only_begins_like_ours_is_a_third_party(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"common/ids.py": "import molecule_core_plugins.store\n"})
    assert find_wrong_imports(tree) == []


def test_caches_and_hidden_files_are_not_part_of_the_tree(tmp_path: Path) -> None:
    strangers = (".hidden", "__pycache__/a.py", "wire/node_modules/a.py", "org/__pycache__/b.py", "org/.cache/b.py")
    assert (
        find_wrong_imports(write_tree(tmp_path, {"wire/events.py": "", **dict.fromkeys(strangers, "import (")})) == []
    )


def test_a_tree_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_wrong_imports(write_tree(tmp_path, {}))
    with pytest.raises(FileNotFoundError):
        find_wrong_imports(write_tree(tmp_path, {"store/schema.sql": ""}))


def test_the_top_level_packages_of_the_table_form_no_circle() -> None:
    names = top_level_names()
    below = {name: {other for other in names if other != name and may_import_package(name, other)} for name in names}
    while leaves := {name for name, others in below.items() if not others}:
        below = {name: others - leaves for name, others in below.items() if name not in leaves}
    assert below == {}


def test_the_agent_side_and_the_server_side_never_import_each_other() -> None:
    agent_side, server_side = {"agent", "demo", "langchain", "client"}, {"server", "api", "views", "store", *NOUNS}
    crossings = [
        (a, b) for a in agent_side for b in server_side if may_import_package(a, b) or may_import_package(b, a)
    ]
    assert crossings == []


def test_the_longest_pattern_wins_for_each_module() -> None:
    rows = {path: find_row(path) for path in ("api.http.connection", "api.canvas", "org.__init__", "org.tree", "util")}
    assert {path: row.package if row else None for path, row in rows.items()} == {
        "api.http.connection": "api.http",
        "api.canvas": "api",
        "org.__init__": "nouns.__init__",
        "org.tree": "org",
        "util": None,
    }


def test_the_rendered_table_has_a_line_for_each_row() -> None:
    lines = render_table().splitlines()
    assert [line.split()[0] for line in lines] == [row.package for row in TABLE]
    assert all(name in render_table() for name in NOUNS)


def test_the_real_nouns_keep_the_order_of_their_files() -> None:
    assert find_wrong_order(SOURCES) == []


def test_files_that_import_what_ranks_below_them_give_no_finding(tmp_path: Path) -> None:
    files = {
        "org/model.py": "from molecule_core.org.shapes import A\n",
        "org/shapes.py": "",
        "org/rules.py": "from molecule_core.org.model import A\n",
        "org/reader.py": "from molecule_core.org.rules import A\n",
        "org/writer.py": "from molecule_core.org import reader, helpers\n",
        "org/helpers.py": "from molecule_core.org.rules import A\n",
        "messages/rules.py": "from molecule_core.org.writer import A\n",
    }
    assert find_wrong_order(write_tree(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("model", "rules"),
        ("rules", "reader"),
        ("reader", "writer"),
        ("model", "writer"),
        ("status_reader", "agent_writer"),
        ("chains.model", "rules"),
    ],
)
@pytest.mark.parametrize("through", ["", "helpers"])
def test_a_file_that_reaches_what_ranks_above_it_is_a_finding(
    tmp_path: Path, low: str, high: str, through: str
) -> None:
    files = {
        file_of(f"messages.{high}"): "A = 1\n",
        "messages/helpers.py": f"from molecule_core.messages.{high} import A\n",
        file_of(f"messages.{low}"): f"from molecule_core.messages.{through or high} import A\n",
    }
    assert find_wrong_order(write_tree(tmp_path, files)) == [
        f"src/molecule_core: messages.{low} reaches messages.{high}, which ranks above it"
    ]
