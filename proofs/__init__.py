"""The long proofs: `scripts/prove NAME`. docs/proofs.md says what each shows and what its last full run counted.

A proof is a folder here; its `proof.py` ends in a `Proof` (harness/settings.py): a run that counts what must be zero
(harness/verdicts.py), and controls, each the product with one statement changed (harness/controls.py), under which a
named zero must not stay zero. Above: scripts/prove (main.py) and tests/system/proofs. Below: the product, as a process
(harness/serving.py), whole in this process (harness/office.py), or as its own classes.
"""
