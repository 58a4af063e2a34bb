"""Entry point of `python -m molecule_core`: runs the `molecule` command without needing it on PATH."""

from molecule_core.entry import main

if __name__ == "__main__":
    main()
