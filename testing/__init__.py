"""What tests, proofs and benchmarks share. Imports none of them."""
