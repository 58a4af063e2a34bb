"""What a credential looks like, and that a mistyped one is told from a whole one before anybody looks it up."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.logs import redact
from molecule_core.common.tokens import (
    ADMIN_PREFIX,
    INVITATION_PREFIX,
    LOGIN_PREFIX,
    PERSON_PREFIX,
    PUSH_SECRET_PREFIX,
    RUNNER_PREFIX,
    SESSION_PREFIX,
    WORKSPACE_PREFIX,
    hash_token,
    new_admin_token,
    new_token,
    token_hint,
    token_id_from_hash,
    token_prefix,
)
from testing.clocks import SeededRandomness
from testing.step_counts import examples
from tests.requirements import requirement

PREFIXES = [
    WORKSPACE_PREFIX,
    PERSON_PREFIX,
    ADMIN_PREFIX,
    SESSION_PREFIX,
    LOGIN_PREFIX,
    INVITATION_PREFIX,
    PUSH_SECRET_PREFIX,
    RUNNER_PREFIX,
]
ALPHABET = string.ascii_letters + string.digits + "-_"
TOKENS = st.builds(
    lambda prefix, seed: new_token(prefix, SeededRandomness(seed)), st.sampled_from(PREFIXES), st.integers()
)


class CountingRandomness(SeededRandomness):
    """Notes how many secret bytes were asked for."""

    asked: int = 0

    def secret(self, count: int) -> bytes:
        self.asked += count
        return super().secret(count)


@requirement("M7")
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_token_shows_its_kind_and_carries_256_secret_bits(prefix: str) -> None:
    randomness = CountingRandomness()
    token = new_token(prefix, randomness)
    assert token.startswith(prefix)
    assert token_prefix(token) == prefix
    assert set(token) <= set(ALPHABET)
    assert randomness.asked == 32
    assert len(token) == len(prefix) + 43 + 8


def test_all_kinds_are_told_apart_and_no_two_tokens_are_the_same() -> None:
    randomness = SeededRandomness()
    tokens = [new_token(prefix, randomness) for prefix in PREFIXES for _ in range(50)]
    assert len(set(tokens)) == len({hash_token(token) for token in tokens}) == 400
    assert [token_prefix(token) for token in tokens] == [prefix for prefix in PREFIXES for _ in range(50)]
    assert token_prefix(new_admin_token(randomness)) == ADMIN_PREFIX
    assert len(set(PREFIXES)) == 8


@requirement("M7")
def test_no_change_of_one_character_goes_unnoticed() -> None:
    token = new_token(WORKSPACE_PREFIX, SeededRandomness(1))
    for place in range(len(token)):
        for other in string.printable + "é\u200b":
            if other != token[place]:
                assert token_prefix(token[:place] + other + token[place + 1 :]) is None


@examples(200)
@given(TOKENS, st.data())
def test_a_token_that_lost_gained_or_swapped_a_character_is_refused(token: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(token) - 2))
    assert token_prefix(token[:place] + token[place + 1 :]) is None
    assert token_prefix(token[:place] + data.draw(st.sampled_from(ALPHABET)) + token[place:]) is None
    if token[place] != token[place + 1]:
        assert token_prefix(token[:place] + token[place + 1] + token[place] + token[place + 2 :]) is None
    assert token_prefix(token.upper()) is None
    assert token_prefix(f" {token}") is None


@examples(200)
@given(st.text(max_size=80))
def test_no_text_makes_the_check_fail_in_another_way_than_by_saying_no(text: str) -> None:
    assert token_prefix(text) is None
    assert len(hash_token(text)) == 64


@requirement("M7", "O3")
def test_what_is_stored_and_shown_of_a_token_does_not_give_it_away() -> None:
    token = new_token(PERSON_PREFIX, SeededRandomness(3))
    assert hash_token(token) == hash_token(token)
    assert len(hash_token(token)) == 64
    assert token[7:] not in hash_token(token)
    assert token.startswith(token_hint(token))
    assert len(token_hint(token)) <= len(PERSON_PREFIX) + 8  # 48 of 256 bits


@requirement("O3")
@examples(50)
@given(TOKENS)
def test_no_log_shows_a_token_and_what_a_list_calls_it_leads_nowhere(token: str) -> None:
    assert token not in redact(f"a request with {token} in it")
    assert token_id_from_hash(hash_token(token)) not in token
    assert token_prefix(token_id_from_hash(hash_token(token))) is None
