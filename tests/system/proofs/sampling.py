"""How much of a proof the tests play: its tenth, and one of the mistakes that it must see. The whole proof, with every
mistake, is `scripts/prove`."""

from collections.abc import Sequence

from proofs.harness.controls import Control


def one_of(controls: Sequence[Control]) -> Sequence[Control]:
    """Return the first one alone; fail if there is no other, since then nothing is left out."""
    assert len(controls) > 1
    return controls[:1]
