"""Random organisations as files, and as the rows that the API would show of them."""

import itertools
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import asdict

from molecule_core.client.org_file import OrgFile, OrgFileWorkspace, list_nodes

NAMES = ("Ops", "Dev", 'Q"A', "Größe", "a\\b", "開発", "x = 1", "# no", "[[seat]]")
TEXTS = ("", "builds things", 'says "hi" \\ and more', "=", "ü")


def file_seats(levels: int = 3) -> st.SearchStrategy[tuple[OrgFileWorkspace, ...]]:
    """Seats side by side with different names, and those below them."""
    below = file_seats(levels - 1) if levels > 1 else st.just(())
    one = st.builds(
        OrgFileWorkspace,
        name=st.sampled_from(NAMES),
        role=st.sampled_from(TEXTS),
        runtime=st.sampled_from(["generic-mcp", "codex"]),
        external=st.booleans(),
        tier=st.integers(0, 9),
        max_concurrent_tasks=st.integers(1, 5),
        instruction_template_id=st.none() | st.sampled_from(["codex-default", "generic-mcp-default"]),
        instruction_compact=st.booleans(),
        broadcast_enabled=st.booleans(),
        talk_to_user_enabled=st.booleans(),
        seat=below,
    )
    return st.lists(one, max_size=3, unique_by=lambda seat: seat.name).map(tuple)


@st.composite
def org_files(draw: st.DrawFn, *, keyed: bool | None = None) -> OrgFile:
    """A file, some of whose seats have keys, or all, or none."""
    numbers = itertools.count()

    def with_keys(seats: tuple[OrgFileWorkspace, ...]) -> tuple[OrgFileWorkspace, ...]:
        found = []
        for seat in seats:
            number = next(numbers)
            has = draw(st.booleans()) if keyed is None else keyed
            members = {**asdict(seat), "key": f"k{number}" if has else None, "seat": with_keys(seat.seat)}
            found.append(OrgFileWorkspace(**members))
        return tuple(found)

    return OrgFile("Random", with_keys(draw(file_seats())))


def rows_of(file: OrgFile) -> list[dict[str, Any]]:
    """An organisation that is exactly as its file says."""
    wanted = list_nodes(file)
    rows = []
    for number, node in enumerate(wanted):
        members = {name: value for name, value in asdict(node.workspace).items() if name != "seat"}
        members |= {"delivery_mode": "poll", "role": node.workspace.role or None}
        rows.append(
            {**members, "id": f"w{number}", "parent_id": None if node.parent_index is None else f"w{node.parent_index}"}
        )
    return rows
