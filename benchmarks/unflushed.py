"""`molecule` with one default changed: its SQLite waits for no disk. The other side of row 3, and of nothing else.

python -m benchmarks.unflushed serve ...
"""

from molecule_core.entry import main
from molecule_core.store.sqlite.store import SqliteStore

if __name__ == "__main__":
    defaults = SqliteStore.__init__.__kwdefaults__ or {}
    if defaults.get("synchronous") != "FULL":
        raise SystemExit("the product does not wait for its disk: there is nothing to compare")
    defaults["synchronous"] = "OFF"
    main()
