"""How two changes become one."""

from collections.abc import Callable

from molecule_core.store.database import JournalEvent, WriteSet

FIRST = WriteSet(1, [("a", {})], [JournalEvent("A", "w", "k", "1")], ("bell a",), domain_events=["fell"])
SECOND = WriteSet(2, (("b", {}),), [JournalEvent("B", "w", "k", "2")], ("bell b",), domain_events=("broke",))


def test_both_changes_are_kept_in_order_with_the_result_of_the_first() -> None:
    both = FIRST + SECOND
    assert both.result == 1
    assert list(both.writes) == [("a", {}), ("b", {})]
    assert [event.name for event in both.events] == ["A", "B"]
    assert both.notify == ("bell a", "bell b")
    assert list(both.domain_events) == ["fell", "broke"]


def test_the_parts_stay_as_they_were_and_nothing_is_copied_beside_an_empty_part() -> None:
    assert (FIRST + SECOND).writes is not FIRST.writes
    assert list(FIRST.writes) == [("a", {})]
    assert (FIRST + WriteSet(None)).writes is FIRST.writes
    assert (WriteSet("x") + FIRST).writes is FIRST.writes


def test_another_result_keeps_the_change() -> None:
    error = LookupError("x")
    changed = WriteSet(1, FIRST.writes, FIRST.events, error=error, isolated=True).returning("other")
    assert changed == WriteSet("other", FIRST.writes, FIRST.events, error=error, isolated=True)


def test_the_first_error_is_the_callers_and_isolation_of_either_counts() -> None:
    first, second = LookupError("first"), LookupError("second")
    assert (WriteSet(None, error=first) + WriteSet(None, error=second)).error is first
    assert (WriteSet(None) + WriteSet(None, error=second)).error is second
    assert (WriteSet(None) + WriteSet(None, isolated=True)).isolated
    assert not (FIRST + SECOND).isolated


def test_what_follows_the_commit_runs_in_order() -> None:
    ran: list[str] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: ran.append(name)

    parts = [WriteSet(None, after_commit=note("a")), WriteSet(None), WriteSet(None, after_commit=note("b"))]
    joined = sum(parts, WriteSet(None))
    assert joined.after_commit is not None
    joined.after_commit()
    assert ran == ["a", "b"]
    assert (WriteSet(None) + WriteSet(None)).after_commit is None
