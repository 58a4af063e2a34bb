"""What the machine says about a process, and what a server may ask of it."""

import resource
import sys

import pytest

from molecule_core.common import process_info
from tests.requirements import requirement

_FILES = resource.RLIMIT_NOFILE


@requirement("O4")
def test_figures_of_this_process_are_plausible() -> None:
    assert 1 << 20 < process_info.memory_bytes() < 1 << 40
    assert process_info.cpu_seconds() > 0
    assert 2 < process_info.open_files() <= process_info.open_files_limit() <= process_info.max_open_files()


@requirement("O8")
@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "asked"),
    [
        (1024, 4096, 2000, (2000, 4096)),
        (1024, 4096, 20_000, (4096, 4096)),
        (4096, 4096, 2000, None),
        (256, resource.RLIM_INFINITY, 20_000, (20_000, resource.RLIM_INFINITY)),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 20_000, None),
    ],
)
def test_a_server_asks_for_as_many_open_files_as_it_needs_and_may_have(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int, asked: tuple[int, int] | None
) -> None:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, pair: calls.append(pair))
    process_info.raise_open_files_limit(wanted)
    assert calls == ([] if asked is None else [asked])
    assert process_info.max_open_files() == (sys.maxsize if hard == resource.RLIM_INFINITY else hard)


@requirement("O8")
def test_a_machine_that_says_no_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_kind: int, _pair: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    before = resource.getrlimit(_FILES)
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (10, 20))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    process_info.raise_open_files_limit(1000)
    monkeypatch.undo()
    assert resource.getrlimit(_FILES) == before
