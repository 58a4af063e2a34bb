"""Tests that take long for what they show beyond the others: only `scripts/test --all` runs them, as `.ci/run` does.

A usual run shows each package on both engines, the page in a browser, the agents' side and the command line. Single
tests are marked with `@pytest.mark.long`; whole folders and files stand here.
"""

from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parent

_LONG = (
    # All views in several sizes, element by element.
    "canvas/test_access_axe.py",
    "canvas/test_access_reach.py",
    # The demo's company of processes, whose agents take their time.
    "demo/test_company.py",
    "demo/test_lead.py",
    "demo/test_mute.py",
    "demo/test_up_demo.py",
    # Real hosts, each a process of somebody else.
    "interop",
    # Proofs at a tenth, and the mistakes that they must see. The rules of proofs are in the other files of that folder.
    "prove/test_approvals.py",
    "prove/test_backup.py",
    "prove/test_browser.py",
    "prove/test_crashpoints.py",
    "prove/test_cursors.py",
    "prove/test_envelope.py",
    "prove/test_fetch.py",
    "prove/test_files.py",
    "prove/test_http.py",
    "prove/test_isolation.py",
    "prove/test_kill9.py",
    "prove/test_limits.py",
    "prove/test_loops.py",
    "prove/test_matrix.py",
    "prove/test_network.py",
    "prove/test_parity.py",
    "prove/test_power.py",
    "prove/test_routing.py",
    "prove/test_secrets.py",
    "prove/test_senders.py",
    "prove/test_simulate.py",
    "prove/test_slow.py",
    "prove/test_snapshot.py",
    "prove/test_soak.py",
    "prove/test_state.py",
    "prove/test_storage.py",
    "prove/test_templates.py",
    "prove/test_upgrade.py",
    "prove/test_wait.py",
    "prove/test_workers.py",
)


# Where a journey is made in several ways on both engines: each way on SQLite, but only the first on PostgreSQL. What
# the ways do to the store is the same.
_FIRST_WAYS = {"entrance": "http", "layer": "off"}


def missing_paths() -> list[str]:
    """Return the paths of the list that do not exist."""
    return [each for each in _LONG if not (_TESTS / each).exists()]


def is_long(item: pytest.Item) -> bool:
    """Return whether a test is marked as long, is a further way on PostgreSQL, or lies in a folder or file of the
    list."""
    return item.get_closest_marker("long") is not None or _is_further_way(item) or lies_in_long_file(item)


def lies_in_long_file(item: pytest.Item) -> bool:
    """Return whether the whole file of a test is long."""
    return any((_TESTS / each) in (item.path, *item.path.parents) for each in _LONG)


def _is_further_way(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return params.get("engine") == "postgres" and any(
        name in params and params[name] != first for name, first in _FIRST_WAYS.items()
    )
