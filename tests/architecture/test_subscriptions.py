"""Subscribers are registered in the composition root, and nowhere else."""

from pathlib import Path

import pytest

from tests.architecture.guards.subscriptions import find_foreign_subscriptions
from tests.architecture.repository import SOURCES, write_tree


def test_only_the_composition_root_registers_subscribers() -> None:
    assert find_foreign_subscriptions(SOURCES) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def wire(subscribers):\n    subscribers.subscribe(int, 'x', print)\n", 2),
        ("class A:\n    def b(self):\n        self._store.subscribers.subscribe(int, 'x', print)\n", 3),
        ("def wire(subscribers):\n    register = subscribers.subscribe\n    register(int, 'x', print)\n", 2),
    ],
)
def test_a_subscription_outside_it_is_the_one_finding(tmp_path: Path, text: str, line: int) -> None:
    tree = write_tree(
        tmp_path,
        {
            "delegations/writer.py": text,
            "server/composition.py": "def wire(s):\n    s.subscribers.subscribe(int, 'x', print)\n",
        },
    )
    assert find_foreign_subscriptions(tree) == [
        f"src/molecule_core/delegations/writer.py:{line} "
        "delegations.writer registers a subscriber, which only server.composition may"
    ]


def test_another_subscribe_method_gives_no_finding(tmp_path: Path) -> None:
    text = "def f(self):\n    self.subscribe()\n    subscribe()\n    self._client.subscribe(1)\n"
    assert find_foreign_subscriptions(write_tree(tmp_path, {"store/nats.py": text})) == []
