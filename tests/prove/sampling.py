"""How much of a proof the tests play: its tenth, and the first few of the mistakes that it must see. The whole proof,
with every mistake, is `scripts/prove`."""

from collections.abc import Sequence

from proofs.harness.controls import Control


def few(controls: Sequence[Control], count: int) -> Sequence[Control]:
    """The first ones; fails if there are no more than these, since then nothing is left out."""
    assert 0 < count < len(controls)
    return controls[:count]
