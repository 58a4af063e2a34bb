"""The checks of `molecule doctor`. Each gives one line, and an advice if something is wrong."""

import asyncio
import errno
import os
import socket
import sys
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from molecule_core.cli._os_errors import user_advice, user_name
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common import process_info
from molecule_core.common.clock import DAY, SECOND, Clock
from molecule_core.common.errors import BackupFailed
from molecule_core.common.limits import SPARE_FILES, Limits
from molecule_core.common.settings import Settings
from molecule_core.common.state_files import BACKUP_STAMP, free_bytes, last_backup_at
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.sqlite.backup import (
    StoreInfo,
    database_path,
    integrity_error,
    is_in_use,
    read_store_info,
    sqlite_version,
)

# 1 GiB: with less, a flood of messages or a backup can fill the disk before it is noticed.
_MIN_FREE_BYTES = 1 << 30
_TIMEOUT_SECONDS = 5.0
# HTTP statuses from 400 on are errors; below, a Molecule server answers a health check only with 200.
_FIRST_ERROR_STATUS = 400
MIN_PYTHON = (3, 11)
# Earlier versions can damage a database if the write-ahead log is reset during a read.
MIN_SQLITE = (3, 51, 3)
# The oldest version that is still maintained.
_MIN_POSTGRES = 14
# One server takes 10: eight readers, one writer, one listener. The rest is for backup, doctor and a person.
_MIN_CONNECTIONS = 15
# Enough for a company; more are required only if the operator sets a higher limit of connections.
_SUFFICIENT_CONNECTIONS = 1024
# The clock is wrong if files are newer than this, or if the time is before this program was written.
_MAX_CLOCK_SKEW_SECONDS = 300
_EARLIEST_TIME = 1_760_000_000 * SECOND
_MAX_BACKUP_DAYS = 7


class Finding(NamedTuple):
    """The result of a check: subject, observation, and an advice if it is bad."""

    subject: str
    observed: str
    advice: str = ""


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Check the Python version."""
    observed = ".".join(map(str, version[:3]))
    if version[:2] < MIN_PYTHON:
        return Finding("python", observed, "install Python 3.11 or newer, then install Molecule again with it")
    return Finding("python", observed)


def check_sqlite(version: str | None = None) -> Finding:
    """Check that SQLite has the fix of its write-ahead log."""
    observed = version or sqlite_version()
    if tuple(map(int, observed.split("."))) < MIN_SQLITE:
        return Finding(
            "sqlite", observed, "run pip install --upgrade apsw: this SQLite can damage a store (fixed in 3.51.3)"
        )
    return Finding("sqlite", observed)


def check_folder(state: Path) -> Finding:
    """Check that the folder exists, is private and can be written."""
    subject = "state folder"
    if not state.is_dir():
        return Finding(subject, f"{state} does not exist", "start `molecule serve` once, or set --state-dir")
    mode = state.stat().st_mode & 0o777
    if is_hidden(state):
        return Finding(subject, f"{state} belongs to another user", user_advice(state))
    if mode & 0o077:
        return Finding(subject, f"other users can read {state} (mode {mode:o})", f"run chmod 700 {state}")
    if foreign := _foreign_file(state):
        owner = user_name(state.stat().st_uid)
        advice = f"run chown -R {owner} {state}: a command ran as another user"
        return Finding(subject, f"{foreign} does not belong to {owner}", advice)
    return Finding(subject, str(state))


def is_hidden(state: Path) -> bool:
    """Return whether there is a state folder that this user cannot use."""
    return state.is_dir() and not os.access(state, os.R_OK | os.W_OK | os.X_OK)


def _foreign_file(state: Path) -> Path | None:
    """Return a file of the server that the owner of its folder does not own."""
    owner = state.stat().st_uid
    return next((each for each in sorted(state.iterdir()) if each.lstat().st_uid != owner), None)


def check_disk(state: Path) -> Finding:
    """Check the free disk space."""
    free = free_bytes(state)
    if free < _MIN_FREE_BYTES:
        return Finding("disk", f"{free >> 20} MiB free", "free at least 1 GiB on that disk")
    return Finding("disk", f"{free >> 30} GiB free")


def check_clock(settings: Settings, clock: Clock) -> Finding:
    """Check that the time is later than that of all written files, and near that of the database."""
    state = settings.state_folder
    now, files = clock.now(), [*state.iterdir()] if os.access(state, os.R_OK | os.X_OK) else []
    newest = max((path.lstat().st_mtime_ns // 1000 for path in files), default=0)
    if (skew := _database_skew(settings, clock)) is not None:
        return skew
    if now < _EARLIEST_TIME:
        return Finding("clock", "set to a time in the past", "set the clock (timedatectl set-ntp true), then restart")
    if newest > now + _MAX_CLOCK_SKEW_SECONDS * SECOND:
        late = (newest - now) // SECOND
        advice = "set the clock (timedatectl set-ntp true): leases, expiry and retention depend on it"
        return Finding("clock", f"{late:,} s behind the newest file of the store", advice)
    return Finding("clock", "correct")


def _database_skew(settings: Settings, clock: Clock) -> Finding | None:
    """Return a finding if the clock differs from that of the database; a start is refused then."""
    if not settings.database:
        return None
    from molecule_core.store.postgres.clock_skew import read_clock_skew

    skew = asyncio.run(read_clock_skew(settings.database, clock)) or 0
    limit = settings.limits.clock_skew_seconds
    if abs(skew) <= limit:
        return None
    observed = f"{abs(skew):,.0f} s {'ahead of' if skew > 0 else 'behind'} the clock of the database, at most {limit} s"
    return Finding("clock", observed, "set the clocks of both machines (timedatectl set-ntp true): a start is refused")


def check_files(settings: Settings, max_files: int | None = None) -> Finding:
    """Check that the configured number of connections can be opened. (A server accepts fewer if it cannot.)"""
    max_files = process_info.max_open_files() if max_files is None else max_files
    wanted = settings.limits.connections
    need = SPARE_FILES + (wanted if wanted != Limits().connections else min(wanted, _SUFFICIENT_CONNECTIONS))
    if max_files < need:
        fewer = max(1, max_files - SPARE_FILES)
        advice = f"set LimitNOFILE={need} in the unit (or ulimit -Hn), or MOLECULE_LIMIT_CONNECTIONS={fewer}"
        return Finding("open files", f"{max_files:,} allowed, {need:,} needed", advice)
    return Finding("open files", f"{max_files:,} allowed")


def check_url(settings: Settings) -> Finding:
    """Check that the public URL is a usable address."""
    subject, url = "public url", settings.public_url
    if not url:
        return Finding(subject, f"none; agents use {settings.url}")
    advice = "set MOLECULE_PUBLIC_URL to the address that people open, such as https://molecule.example"
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return Finding(subject, "not an address", advice)
    if not known or parts.username or parts.query or parts.fragment:
        return Finding(subject, "not the address of a server (http or https, a host, no user, no query)", advice)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return Finding(
            subject, "unencrypted", "add a proxy with TLS, and set MOLECULE_PUBLIC_URL to its https:// address"
        )
    return Finding(subject, f"{parts.scheme}://{parts.netloc}")


def check_canvas() -> Finding:
    """Check that the canvas was built into the package."""
    if resources.files("molecule_core").joinpath("canvas_assets", "index.html").is_file():
        return Finding("canvas", "built")
    return Finding(
        "canvas", "not built", "run scripts/canvas build in the checkout, or install a wheel, which contains it"
    )


# -- store -------------------------------------------------------------------------------------------------------------


def check_store(settings: Settings) -> tuple[Finding, StoreInfo | None]:
    """Check that the store answers, is intact and has a known schema; return its properties too."""
    return _check_postgres(settings.database) if settings.database else _check_sqlite_store(settings.state_folder)


def _check_sqlite_store(state: Path) -> tuple[Finding, StoreInfo | None]:
    database = database_path(state)
    if not database.exists():
        return Finding("store", "none yet; the first start creates it"), None
    if problem := integrity_error(database):
        return Finding("store", problem, "stop the server and restore a backup: molecule restore COPY"), None
    info = read_store_info(database)
    use = ", in use by a server" if is_in_use(state) else ""
    return Finding("store", f"intact, {_describe_schema(info)}{use}"), info


def _check_postgres(dsn: str) -> tuple[Finding, StoreInfo | None]:
    from molecule_core.store.postgres.backup import read_postgres_info

    try:
        found = asyncio.run(read_postgres_info(dsn))
    except BackupFailed as error:
        advice = "start PostgreSQL, or set MOLECULE_DATABASE to its address (test the address with psql)"
        return Finding("store", f"PostgreSQL does not respond: {error.details['reason']}", advice), None
    observed = f"PostgreSQL {found.server_version // 10_000}"
    if found.server_version // 10_000 < _MIN_POSTGRES:
        return Finding("store", observed, f"upgrade PostgreSQL to {_MIN_POSTGRES} or newer"), found.store
    if found.free_connections < _MIN_CONNECTIONS:
        advice = f"raise max_connections: each server uses 10, and {_MIN_CONNECTIONS} should be free"
        return Finding("store", f"{observed}, {found.free_connections} connections free", advice), found.store
    if found.store is not None and found.store.schema > SCHEMA_VERSION:
        advice = "install that version of Molecule, or restore an older copy to a new database: molecule restore COPY"
        return Finding("store", f"{observed}, schema {found.store.schema}, from a newer Molecule", advice), found.store
    return Finding(
        "store", f"{observed}, {'empty' if found.store is None else _describe_schema(found.store)}"
    ), found.store


def _describe_schema(info: StoreInfo) -> str:
    if info.schema < SCHEMA_VERSION:
        return f"schema {info.schema}; the next start upgrades it to {SCHEMA_VERSION} and keeps a copy"
    return f"schema {info.schema}"


def check_backup(settings: Settings, info: StoreInfo | None, clock: Clock) -> Finding:
    """Check that a store older than some days has a recent backup."""
    now, advice = (
        clock.now(),
        "run molecule backup FOLDER every day; docs/how-to/backup-and-upgrade.md has a timer for it",
    )
    last = last_backup_at(settings.state_folder)
    if last is not None:
        days, contents = (now - last) // DAY, _backup_contents(settings.state_folder / BACKUP_STAMP)
        return Finding("backup", f"{days} days old{contents}", advice if days > _MAX_BACKUP_DAYS else "")
    if info is None or info.created_at is None or now - info.created_at <= _MAX_BACKUP_DAYS * DAY:
        return Finding("backup", "none yet")
    return Finding("backup", "none", advice)


def _backup_contents(stamp: Path) -> str:
    """Return what the last backup holds; empty for a version that wrote no summary."""
    lines = stamp.read_text(encoding="utf-8", errors="replace").splitlines()
    return f": {lines[1]}" if len(lines) > 1 else ""


# -- server ------------------------------------------------------------------------------------------------------------


def check_server(settings: Settings, address: str | None = None) -> Finding:
    """Check that the server answers at its address (default: that of the settings) and is ready."""
    address = address or settings.url
    subject, url = "server", f"{address}/ready"
    start = f"start it with `molecule serve --port {settings.port}`, or set --host and --port"
    try:
        status = asyncio.run(_read_status(address))
    except ApiError as error:
        if error.status < _FIRST_ERROR_STATUS:
            return Finding(subject, f"another program responds at {url}", start)
        reason = error.problem.get("error", error.status)
        return Finding(
            subject, f"{url} responds with {error.status}: {reason}", "read its log, which states the reason"
        )
    except NoAnswerError as error:
        if _is_port_in_use(settings):
            return Finding(
                subject,
                f"port {settings.port} is in use, but {url} does not respond",
                f"find the program that uses it: ss -ltnp 'sport = :{settings.port}'",
            )
        return Finding(subject, f"no response from {url}: {error}", start)
    if status != "ready":
        return Finding(subject, f"another program responds at {url}", start)
    return Finding(subject, f"ready at {address}")


def check_instructions(address: str, token: str | None) -> Finding | None:
    """Report whether the running server adds instructions to deliveries; None if it does not say."""
    if token is None:
        return None
    try:
        rows = asyncio.run(_read_settings(address, token))
    except (ApiError, NoAnswerError, KeyError, TypeError, ValueError):
        return None
    if rows["push_instructions_enabled"]:
        return Finding("instructions", f"on ({rows['instruction_shape']})")
    return Finding("instructions", "off: agents get no text that explains how to answer (PUSH_INSTRUCTIONS_ENABLED)")


async def _read_settings(address: str, token: str) -> dict[str, Any]:
    async with ApiClient(address, token, seconds=_TIMEOUT_SECONDS) as api:
        return {row["name"]: row["value"] for row in (await api.get("/admin/settings"))["settings"]}


async def _read_status(url: str) -> str:
    async with ApiClient(url, seconds=_TIMEOUT_SECONDS) as api:
        answer = await api.get("/ready")
        return str(answer.get("status", "")) if isinstance(answer, dict) else ""


def _is_port_in_use(settings: Settings) -> bool:
    """Return whether the server's port on this machine is in use."""
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
