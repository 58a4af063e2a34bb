"""Every control of the proofs and of the tests."""

from proofs.main import PROOFS
from tests.store.mutated_modules import MUTATIONS

CONTROLS = sorted(
    {each for proof in PROOFS.values() for controls in proof.controls.values() for each in controls},
    key=lambda control: control.name,
)
# Those of the tests too; a change that several of them make is in it once.
EVERY = list({(each.marker, each.change): each for each in (*CONTROLS, *MUTATIONS)}.values())
