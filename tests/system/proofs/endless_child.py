"""A child that never stops talking."""

import sys

if __name__ == "__main__":
    while True:
        sys.stdout.write("x" * 10_000)
