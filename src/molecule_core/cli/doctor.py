"""`molecule doctor`: finds problems and says what to do."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from molecule_core.cli import _doctor_checks
from molecule_core.cli._doctor_checks import Finding
from molecule_core.cli._options import (
    SERVER_OPTION,
    SERVER_VARIABLE,
    load_client_settings,
    owner_token,
    serve_options,
    server_address,
)
from molecule_core.common.clock import SystemClock
from molecule_core.common.logs import redact
from molecule_core.common.settings import Settings


@click.command("doctor")
@click.option(SERVER_OPTION, envvar=SERVER_VARIABLE, help="Address of the server.  [default: that of --state-dir]")
@serve_options
def command(**flags: Any) -> None:
    """Check the machine, the state folder, the store and the server, and print how to fix problems. Exit code 1 if
    there is a problem."""
    settings = load_client_settings(**flags)
    findings = list(_findings(settings, _address_of(flags, settings)))
    for finding in findings:
        click.echo(redact(f"{'FAIL' if finding.advice else 'ok':4}  {finding.subject:13} {finding.observed}"))
        if finding.advice:
            click.echo(redact(f"      {'':13} -> {finding.advice}"))
    sys.exit(1 if any(finding.advice for finding in findings) else 0)


def _address_of(flags: dict[str, Any], settings: Settings) -> str:
    """Return the address to check: that which agents and people use, if it is configured here."""
    return settings.url if settings.public_url and not flags["server"] else server_address(flags, settings)


def _findings(settings: Settings, address: str) -> Iterator[Finding]:
    clock = SystemClock()
    yield _doctor_checks.check_python()
    yield _doctor_checks.check_sqlite()
    yield _doctor_checks.check_folder(settings.state_folder)
    if _doctor_checks.is_hidden(settings.state_folder):
        return  # all that follows would say the same
    yield _doctor_checks.check_disk(settings.state_folder)
    yield _doctor_checks.check_clock(settings, clock)
    yield _doctor_checks.check_files(settings)
    yield _doctor_checks.check_url(settings)
    yield _doctor_checks.check_canvas()
    store, info = _doctor_checks.check_store(settings)
    yield store
    yield _doctor_checks.check_backup(settings, info, clock)
    yield _doctor_checks.check_server(settings, address)
    instructions = _doctor_checks.check_instructions(address, owner_token(settings, address))
    if instructions is not None:
        yield instructions
