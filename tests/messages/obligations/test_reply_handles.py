"""Reply handles: short, bound to all that an answer depends on, and never taken for another one's."""

import dataclasses
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.messages.obligations.reply_handles import make_handle, parse_handle
from testing.step_counts import examples
from tests.requirements import requirement

ids = st.text(string.ascii_letters + string.digits + "._:-", min_size=1, max_size=36)


@dataclasses.dataclass(frozen=True)
class Bound:
    """What a handle is bound to."""

    org_id: str
    sender: str
    workspace_id: str
    context_id: str
    activity_id: str
    seq: int

    @property
    def handle(self) -> str:
        """Its handle."""
        return make_handle(*dataclasses.astuple(self))


bounds = st.builds(Bound, ids, st.just("") | ids, ids, ids, ids, st.integers(1, 10**9))


@requirement("M27")
@given(bounds)
@examples(200)
def test_a_handle_names_its_message_and_is_the_same_each_time(bound: Bound) -> None:
    found = parse_handle(bound.handle)
    assert found is not None
    assert found.seq == bound.seq
    assert bound.handle == f"m{bound.seq}-{found.check}"
    assert bound.handle == dataclasses.replace(bound).handle


@requirement("M27")
@given(bounds, st.sampled_from([field.name for field in dataclasses.fields(Bound)]), ids, st.integers(1, 10**9))
@examples(200)
def test_a_handle_changes_with_each_thing_that_it_is_bound_to(bound: Bound, name: str, text: str, number: int) -> None:
    changes: dict[str, Any] = {name: number if name == "seq" else text}
    other = dataclasses.replace(bound, **changes)
    # One in 32 million agrees by chance; the examples of a run are a few hundred.
    assert (other.handle == bound.handle) == (other == bound)


@requirement("M27")
def test_what_stands_in_one_member_never_runs_into_the_next() -> None:
    assert make_handle("ab", "c", "w", "t", "a", 1)[2:] != make_handle("a", "bc", "w", "t", "a", 1)[2:]
    assert make_handle("o", "", "w", "t", "a", 1) != make_handle("o", "w", "", "t", "a", 1)


@requirement("M27")
def test_a_message_that_begins_its_thread_has_one_handle_whether_the_thread_is_named_or_not() -> None:
    assert make_handle("o", "s", "w", None, "a", 1) == make_handle("o", "s", "w", "a", "a", 1)


@requirement("M27")
@given(st.integers(1, 10**6))
@examples(50)
def test_checks_are_spread_over_the_whole_alphabet(first: int) -> None:
    """1,000 neighbours in one inbox: no letter is missing at any place, and hardly two checks agree."""
    checks = [make_handle("o", "s", "w", "t", f"a{no}", no).split("-")[1] for no in range(first, first + 1000)]
    assert all(len({check[place] for check in checks}) == 32 for place in range(5))
    assert len(set(checks)) > 990


@requirement("M27")
@pytest.mark.parametrize("spelled", ["m17-k3f9q", " m17-k3f9q\n", "M17-K3F9Q"])
def test_a_handle_is_read_as_a_model_may_copy_it(spelled: str) -> None:
    assert parse_handle(spelled) == (17, "k3f9q")


@requirement("M27")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        "17-k3f9q",
        "m0-k3f9q",
        "m017-k3f9q",
        "m-1-k3f9q",
        "m17-k3f9",
        "m17-k3f9qq",
        "m17k3f9q",
        "m17-k3f9i",  # letters that are not in use
        "m17-k3f9o",
        "m17 -k3f9q",
        "m\uff11\uff17-k3f9q",
        "m17-\u212a3f9q",  # a Kelvin sign, whose small letter is a k
        "m17-k3f9q m18-k3f9q",
        "m" + "9" * 19 + "-k3f9q",  # no number of any inbox
        "m17-k3f9q\x00",
    ],
)
def test_anything_else_is_no_handle(text: str) -> None:
    assert parse_handle(text) is None


@requirement("M27")
@given(st.text(max_size=40))
@examples(300)
def test_no_text_makes_the_reader_of_handles_stumble(text: str) -> None:
    found = parse_handle(text)
    assert found is None or f"m{found.seq}-{found.check}" == text.strip().lower()
