"""`molecule doctor`: finds problems and says what to do."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from molecule_core.cli import _doctor_checks
from molecule_core.cli._doctor_checks import Finding
from molecule_core.cli._options import load_cli_settings, serve_options
from molecule_core.common.clock import SystemClock
from molecule_core.common.logs import redact
from molecule_core.common.settings import Settings


@click.command("doctor")
@serve_options
def command(**flags: Any) -> None:
    """Look at the machine, the state folder, the store and the server. Exit code 1 if one of them needs help."""
    findings = list(_findings(load_cli_settings(**flags)))
    for finding in findings:
        click.echo(redact(f"{'FAIL' if finding.advice else 'ok':4}  {finding.subject:13} {finding.observed}"))
        if finding.advice:
            click.echo(redact(f"      {'':13} -> {finding.advice}"))
    sys.exit(1 if any(finding.advice for finding in findings) else 0)


def _findings(settings: Settings) -> Iterator[Finding]:
    clock = SystemClock()
    yield _doctor_checks.check_python()
    yield _doctor_checks.check_sqlite()
    yield _doctor_checks.check_folder(settings.state_folder)
    yield _doctor_checks.check_disk(settings.state_folder)
    yield _doctor_checks.check_clock(settings.state_folder, clock)
    yield _doctor_checks.check_files(settings)
    yield _doctor_checks.check_url(settings)
    yield _doctor_checks.check_canvas()
    store, info = _doctor_checks.check_store(settings)
    yield store
    yield _doctor_checks.check_backup(settings, info, clock)
    yield _doctor_checks.check_server(settings)
