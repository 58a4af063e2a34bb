"""What the log says about a migration of the schema: that it began, from which copy one can return, and its end."""

import logging
from pathlib import Path

from molecule_core.store.database import SCHEMA_VERSION

_log = logging.getLogger("molecule.store")


def log_migration_start(found: int, copy: Path | None) -> None:
    """Log that the store is migrated, and where its copy from before is."""
    _log.warning(
        "the store is migrated from schema %d to %d; %s",
        found,
        SCHEMA_VERSION,
        "no copy was made" if copy is None else f"a copy from before is in {copy}",
        extra={"schema": SCHEMA_VERSION},
    )


def log_migration_end() -> None:
    """Log that the store was migrated."""
    _log.warning("the store has schema %d now", SCHEMA_VERSION, extra={"schema": SCHEMA_VERSION})
