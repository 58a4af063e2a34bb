"""Entry point of `python -m molecule_core`: runs the `molecule` command without needing it on PATH."""

import os
import sys

# os and sys are loaded already. Any other import would be one of the folder that is open in a host, if the host starts
# this without -P, as an earlier version wrote it into configurations.
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()] != [_PACKAGE_FOLDER]:  # noqa: PTH109
    del sys.path[0]

from molecule_core.entry import main  # noqa: E402 - after the path is safe

if __name__ == "__main__":
    main()
