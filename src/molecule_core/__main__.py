"""`python -m molecule_core`: the `molecule` command, from any folder and without a PATH."""

from molecule_core.entry import main

if __name__ == "__main__":
    main()
