"""`molecule doctor`: what is wrong, and what to do about it."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from molecule_core.cli import examine
from molecule_core.cli.examine import Finding
from molecule_core.cli.options import serve_options, settings_from
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.logs import redact
from molecule_core.ground.settings import Settings


@click.command("doctor")
@serve_options
def command(**flags: Any) -> None:
    """Look at the machine, the state folder, the store and the server. Exit code 1 if one of them needs help."""
    findings = list(_findings(settings_from(**flags)))
    for finding in findings:
        click.echo(redact(f"{'FAIL' if finding.advice else 'ok':4}  {finding.what:13} {finding.seen}"))
        if finding.advice:
            click.echo(redact(f"      {'':13} -> {finding.advice}"))
    sys.exit(1 if any(finding.advice for finding in findings) else 0)


def _findings(settings: Settings) -> Iterator[Finding]:
    clock = SystemClock()
    yield examine.check_python()
    yield examine.check_sqlite()
    yield examine.check_folder(settings.state)
    yield examine.check_disk(settings.state)
    yield examine.check_clock(settings.state, clock)
    yield examine.check_files(settings)
    yield examine.check_url(settings)
    yield examine.check_canvas()
    store, facts = examine.check_store(settings)
    yield store
    yield examine.check_backup(settings, facts, clock)
    yield examine.check_server(settings)
