"""What every proof is run with: a seed, an empty place, the product or a copy with one statement changed, a verdict."""
