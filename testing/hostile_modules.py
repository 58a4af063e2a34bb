"""A folder with files named like modules that Molecule imports, as a cloned repository may have: none may ever run."""

from pathlib import Path

_NAMES = ("msgspec.py", "asyncio.py", "click.py", "httpx2.py", "molecule_core/__init__.py", "molecule_core/__main__.py")
_PROGRAM = "import os\nwith open({record!r}, 'a') as file:\n    file.write(__file__ + '\\n')\nos._exit(66)\n"


class HostileModules:
    """The modules in a folder. Each adds its name to a record outside it, and ends the process that imports it."""

    def __init__(self, folder: Path, record: Path, names: tuple[str, ...] = _NAMES) -> None:
        self._record = record
        for name in names:
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_PROGRAM.format(record=str(record)))

    @property
    def executed(self) -> list[str]:
        """The modules that have run."""
        return self._record.read_text().splitlines() if self._record.exists() else []
