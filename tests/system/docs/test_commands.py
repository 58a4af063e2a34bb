"""Every command that the pages print works as printed."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from testing.processes import ROOT
from tests.system.docs.blocks import CLASSES, RUN, Block, commands_of, documented_pages, read_blocks, read_spans
from tests.system.docs.command_lines import find_command_faults, find_faults, split_commands
from tests.system.docs.reader import run_page
from tests.system.docs.scenarios import SCENARIOS

PAGES = documented_pages()
# Pages that a newcomer reads first; a run of the others, each with its own server, takes minutes.
USUAL = ("README.md", "docs/tutorial/team-of-two.md")


def blocks_of(page: Path) -> list[Block]:
    return read_blocks(page)


def test_each_block_of_commands_belongs_to_a_class(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for page in PAGES for block in blocks_of(page)]
    counts = Counter(block.kind for block in blocks)
    with capsys.disabled():
        sys.stdout.writelines(f"\n{counts[kind]:4} {kind}: {meaning}" for kind, meaning in CLASSES.items())
    assert counts[RUN] > sum(counts.values()) / 2


def test_each_page_with_commands_to_run_has_a_scenario_and_no_other() -> None:
    run = {page.relative_to(ROOT).as_posix() for page in PAGES if any(each.kind == RUN for each in blocks_of(page))}
    assert run == set(SCENARIOS)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_commands_options_and_files_of_a_page_exist(page: Path) -> None:
    faults = [f"{block.place}: {fault}" for block in blocks_of(page) for fault in find_faults(commands_of(block))]
    faults += [
        f"{place}: {fault}"
        for place, span in read_spans(page)
        for words in split_commands(span)
        for fault in find_command_faults(words, is_named=True)
    ]
    assert faults == []


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.long) for name in SCENARIOS]
)
def test_the_commands_of_a_page_run_and_print_what_it_says(name: str, tmp_path: Path) -> None:
    if differences := run_page(ROOT / name, tmp_path / "reader", SCENARIOS[name]):
        pytest.fail("\n".join(differences), pytrace=False)
