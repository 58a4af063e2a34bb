"""The long proofs: `scripts/prove NAME`. docs/proofs.md says what each shows and what its last full run counted.

A proof is one file here that ends in a `Proof` (settings.py): a run that counts what must be zero (verdicts.py), and
controls, each the product with one line replaced (controls.py), under which a named zero must not stay zero.
Above: scripts/prove (main.py) and tests/prove. Below: the product, as a process (serving.py) or as its own classes.
"""
