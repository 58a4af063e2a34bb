"""Chooses the tests of a run by what they show for the time that they take.

usual              each package on both engines, the main use of each view in a browser, the agents' side, the commands
`--all`            also the long tests, as `.ci/run` does: proofs at a tenth, whole companies, real hosts. Single ones
                   are marked with `@pytest.mark.long`; whole folders and files are listed here
`--exhaustive`     also each variation (`@pytest.mark.exhaustive`), and on PostgreSQL all that runs on SQLite
"""

from functools import cache
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parent

_LONG = (
    # All views in several sizes, element by element.
    "canvas/test_access_axe.py",
    "canvas/test_access_reach.py",
    "canvas/test_labels_fit.py",
    # The page without its server, in several tabs, by keys alone; details of views whose main use is in another file.
    "canvas/test_approval_ladder.py",
    "canvas/test_chat_groups.py",
    "canvas/test_conversation_offline.py",
    "canvas/test_conversation_scroll.py",
    "canvas/test_conversation_time.py",
    "canvas/test_demo.py",
    "canvas/test_dialogs.py",
    "canvas/test_first_minutes.py",
    "canvas/test_installed_page.py",
    "canvas/test_keyboard_journeys.py",
    "canvas/test_keyboard_layers.py",
    "canvas/test_live_cut.py",
    "canvas/test_live_tabs.py",
    "canvas/test_map.py",
    "canvas/test_org_layout.py",
    "canvas/test_org_status.py",
    "canvas/test_readable_texts.py",
    "canvas/test_restart.py",
    "canvas/test_safety_texts.py",
    "canvas/test_several_orgs.py",
    "canvas/test_template_editor.py",
    "canvas/test_unread.py",
    "canvas/test_workspace_changes.py",
    # Killed processes, other users of the machine, hostile files, slow clients, refused tokens, programs of others.
    "agent/bridges/test_faulty_acp.py",
    "agent/engines/test_agent_credentials.py",
    "api/http/test_slow_and_large.py",
    "approvals/test_kills.py",
    "cli/test_connect_agents.py",
    "cli/test_connect_hostile_files.py",
    "cli/test_other_users.py",
    "threads/test_kills.py",
    # The demo's company of processes, whose agents take their time.
    "system/demo/test_company.py",
    "system/demo/test_lead.py",
    "system/demo/test_mute.py",
    "system/demo/test_up_demo.py",
    # Real hosts, each a process of somebody else.
    "interop",
    # Proofs at a tenth, and the mistakes that they must see. The rules of proofs are in the other files of that folder.
    "system/proofs/test_approvals.py",
    "system/proofs/test_backup.py",
    "system/proofs/test_browser.py",
    "system/proofs/test_budgets.py",
    "system/proofs/test_crashpoints.py",
    "system/proofs/test_cursors.py",
    "system/proofs/test_envelope.py",
    "system/proofs/test_fetch.py",
    "system/proofs/test_files.py",
    "system/proofs/test_http.py",
    "system/proofs/test_isolation.py",
    "system/proofs/test_kill9.py",
    "system/proofs/test_limits.py",
    "system/proofs/test_loops.py",
    "system/proofs/test_matrix.py",
    "system/proofs/test_network.py",
    "system/proofs/test_parity.py",
    "system/proofs/test_power.py",
    "system/proofs/test_routing.py",
    "system/proofs/test_secrets.py",
    "system/proofs/test_senders.py",
    "system/proofs/test_simulate.py",
    "system/proofs/test_slow.py",
    "system/proofs/test_snapshot.py",
    "system/proofs/test_soak.py",
    "system/proofs/test_state.py",
    "system/proofs/test_storage.py",
    "system/proofs/test_templates.py",
    "system/proofs/test_upgrade.py",
    "system/proofs/test_wait.py",
    "system/proofs/test_workers.py",
)


# What these tests show does not depend on the database.
_ON_SQLITE_ALONE = ("agent", "api/http", "cli", "client", "tools")
# Of the others that run on both engines, a run makes on PostgreSQL those of tests/store and, elsewhere, the first of
# each file and every sixth (with `--all` every third) after it, each in its first variation: a test costs three times
# as much there as on SQLite.
_USUAL_POSTGRES_EACH, _LONG_POSTGRES_EACH = 6, 3
# Of the tests in a browser and of these files, which start processes or servers, a usual run makes the first of
# each file and every sixth after it, each in its first variation: they take seconds each. All of a file run with
# `--all FILE`.
_SLOW = (
    "agent/bridges/test_bridge.py",
    "agent/bridges/test_session_bridge.py",
    "agent/editor/test_editor_agent.py",
    "cli/test_connect.py",
    "cli/test_inbox_hook.py",
    "cli/test_tool.py",
    "cli/test_workspaces.py",
    "delegations/test_parity.py",
    "system/multi_process",
)
_USUAL_SLOW_EACH = 6


def missing_paths() -> list[str]:
    """Return the paths of the list that do not exist."""
    return [each for each in (*_LONG, *_SLOW) if not (_TESTS / each).exists()]


def usual_items(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of a usual run."""
    chosen = [each for each in items if not (_is_long(each) or _is_exhaustive(each))]
    return _without_repetitions(_with_few_slow_ones(chosen), _USUAL_POSTGRES_EACH)


def long_items(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of a run with `--all`."""
    return _without_repetitions([each for each in items if not _is_exhaustive(each)], _LONG_POSTGRES_EACH)


def lies_in_long_file(item: pytest.Item) -> bool:
    """Return whether the whole file of a test is long."""
    return _is_long_file(item.path)


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("long") is not None or lies_in_long_file(item)


def _is_exhaustive(item: pytest.Item) -> bool:
    return item.get_closest_marker("exhaustive") is not None


@cache
def _is_long_file(path: Path) -> bool:
    return any(path.is_relative_to(_TESTS / each) for each in _LONG)


def _with_few_slow_ones(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests, of the slow ones each n-th function of a file."""
    left_out = {
        each
        for functions in _variations([item for item in items if _is_slow(item)])
        for number, same in enumerate(functions)
        for each in same[0 if number % _USUAL_SLOW_EACH else 1 :]
    }
    return [each for each in items if each not in left_out]


def _is_slow(item: pytest.Item) -> bool:
    is_in_browser = "chromium" in getattr(item, "fixturenames", ())
    return is_in_browser or any(item.path.is_relative_to(_TESTS / each) for each in _SLOW)


def _variations(items: list[pytest.Item]) -> list[list[list[pytest.Item]]]:
    """Return for each file its functions in order, each as its variations."""
    files: dict[Path, dict[str, list[pytest.Item]]] = {}
    for each in items:
        files.setdefault(each.path, {}).setdefault(_function(each), []).append(each)
    return [list(functions.values()) for functions in files.values()]


def _without_repetitions(items: list[pytest.Item], postgres_each: int) -> list[pytest.Item]:
    """Return the tests without what repeats on PostgreSQL what SQLite shows, but for each n-th function of a file."""
    on_both = {_function(each) for each in items if _runs_on(each, "sqlite")}
    repeated = {
        each
        for functions in _variations([item for item in items if _is_repetition(item, on_both)])
        for number, same in enumerate(functions)
        for each in same[0 if number % postgres_each or _is_on_sqlite_alone(same[0].path) else 1 :]
    }
    return [each for each in items if each not in repeated]


def _is_repetition(item: pytest.Item, on_both: set[str]) -> bool:
    return _runs_on(item, "postgres") and _function(item) in on_both and not item.path.is_relative_to(_TESTS / "store")


def _is_on_sqlite_alone(path: Path) -> bool:
    return any(path.is_relative_to(_TESTS / each) for each in _ON_SQLITE_ALONE)


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _runs_on(item: pytest.Item, engine: str) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return any(isinstance(each, str) and each == engine for each in params.values())
