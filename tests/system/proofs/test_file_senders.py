"""The judge of files under kills, given a story that is in order and then each way in which it may not be."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from proofs.workload.file_senders import ALTERED, HOLLOW, MISSING, File, Files
from proofs.workload.observations import Book

CONTENT = b"all of it"
SUM = hashlib.sha256(CONTENT).hexdigest()


class Story:
    """One file that was taken, one that nobody was told of, and what was received of a third when the server died."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.book = Book()
        self.files = Files(self.book)
        self.files.taken["a"] = File("W", SUM)
        self.rows = {id_: ("W", len(CONTENT), SUM) for id_ in ("a", "b")}
        for name in ("a", "b", "c.part"):
            (folder / name).write_bytes(CONTENT)
        self.files.read("a", CONTENT)

    def broken(self) -> set[str]:
        """What is wrong with it."""
        return {name for name, count in self.files.judge(self.rows, self.folder).items() if count}


WAYS: list[tuple[set[str], Callable[[Story], object]]] = [
    ({MISSING}, lambda story: story.rows.pop("a")),
    ({MISSING, HOLLOW}, lambda story: (story.folder / "a").unlink()),
    ({MISSING}, lambda story: story.files.read("a", None)),
    ({ALTERED}, lambda story: story.files.read("a", CONTENT[:-1])),
    ({ALTERED}, lambda story: (story.folder / "a").write_bytes(CONTENT.upper())),
    ({ALTERED, HOLLOW}, lambda story: (story.folder / "a").write_bytes(CONTENT[:-1])),
    ({ALTERED}, lambda story: story.rows.update(a=("V", len(CONTENT), SUM))),
    ({HOLLOW}, lambda story: (story.folder / "b").unlink()),
]


def test_a_story_in_order_breaks_nothing(tmp_path: Path) -> None:
    assert Story(tmp_path).broken() == set()


@pytest.mark.parametrize(("names", "change"), WAYS, ids=range(len(WAYS)))
def test_each_way_to_be_wrong_is_counted_under_its_name(
    names: set[str], change: Callable[[Story], object], tmp_path: Path
) -> None:
    story = Story(tmp_path)
    change(story)
    assert story.broken() == names
