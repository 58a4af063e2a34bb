"""Lists of workspaces as JSON are put together from what was made before: they say what a list made anew would say."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.org.model import Heartbeat, Workspace
from molecule_core.org.registry import OrgRegistry
from testing.org_trees import ORGS, seat
from testing.step_counts import examples

# Around the number of neighbours that are kept in one piece.
_AT_FIRST = st.sampled_from((0, 1, 2, 127, 128, 129, 300))
_STEP = st.tuples(st.sampled_from(("add", "change", "remove", "hear", "ask")), st.integers(0, 400))


class Office:
    """A registry, and how often each seat was shown."""

    def __init__(self, count: int) -> None:
        self.registry = OrgRegistry()
        self.seats: list[Workspace] = []
        self.shown = 0
        for _ in range(count):
            self.add()

    def show(self, workspace: Workspace) -> bytes:
        self.shown += 1
        return msgspec.json.encode([workspace.id, workspace.rev, self.registry.last_heartbeat(workspace.id).heard_at])

    def add(self) -> None:
        number = len(self.seats)
        self.seats.append(seat(f"n{number}", ORGS[number % 7 == 0]))
        self.registry.put_workspace(self.seats[-1])

    def change(self, number: int, **fields: int) -> None:
        changed = msgspec.structs.replace(self.seats[number], rev=self.seats[number].rev + 1, **fields)
        self.seats[number] = changed
        self.registry.put_workspace(changed)

    def do(self, step: str, number: int, turn: int) -> None:
        if step == "add" or not self.seats:
            return self.add()
        at = number % len(self.seats)
        if step == "change":
            self.change(at)
        elif step == "remove":
            self.change(at, removed_at=1)
        elif step == "hear":
            self.registry.record_heartbeat(self.seats[at].id, Heartbeat(heard_at=turn))
        return None

    def living(self, org_id: str | None) -> list[Workspace]:
        orgs = ORGS if org_id is None else (org_id,)
        return [each for org in orgs for each in self.seats if each.org_id == org and not each.removed]

    def made_anew(self, workspaces: list[Workspace]) -> bytes:
        return b"[" + b",".join(map(self.show, workspaces)) + b"]"

    def lists(self, start: int) -> list[tuple[bytes, bytes]]:
        """Every list there is, and pages from somewhere, each beside one made anew."""
        pairs = []
        for org_id in ORGS:
            ever = [each for each in self.seats if each.org_id == org_id]
            after = ever[start % len(ever)] if ever else None
            behind = ever[ever.index(after) + 1 :] if after else []
            for count in (1, 100, 150):
                page = [each for each in behind if not each.removed][:count]
                found = self.registry.encoded_page(org_id, None if after is None else after.id, count, self.show)
                pairs.append((found, self.made_anew(page)))
            pairs.append((self.registry.encoded_list(org_id, self.show), self.made_anew(self.living(org_id))))
        return pairs


@examples(100)
@given(_AT_FIRST, st.lists(_STEP, max_size=30))
def test_lists_say_after_any_history_what_lists_made_anew_say(count: int, steps: list[tuple[str, int]]) -> None:
    office = Office(count)
    for turn, (step, number) in enumerate([*steps, ("ask", 0)]):
        office.do(step, number, turn)
        if step == "ask":
            assert all(found == anew for found, anew in office.lists(number))
            of_all = office.registry.encoded_list(None, office.show)
            assert sorted(msgspec.json.decode(of_all)) == sorted(
                msgspec.json.decode(office.made_anew(office.living(None)))
            )


def test_only_who_changed_or_was_heard_is_shown_anew() -> None:
    office = Office(300)
    first = office.registry.encoded_list(None, office.show)
    assert office.shown == 300
    assert office.registry.encoded_list(None, office.show) == first
    assert office.shown == 300
    office.change(1)
    office.registry.record_heartbeat("n150", Heartbeat(heard_at=7))
    office.add()
    office.registry.encoded_list(None, office.show)
    assert office.shown == 303


def test_a_list_of_nobody_is_empty() -> None:
    office = Office(0)
    assert office.registry.encoded_list(None, office.show) == b"[]"
    assert office.registry.encoded_list("unknown", office.show) == b"[]"
    assert office.registry.encoded_page("unknown", None, 100, office.show) == b"[]"
