"""`molecule prompt`: an agent's system prompt: show it, diff it, or watch it change."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from molecule_core.agent.config import CONTAINER_FOLDER, ConfigurationError, read_configuration, select_workspace
from molecule_core.agent.prompt.assembly import PromptInputs, assemble_prompt
from molecule_core.agent.prompt.home import read_home
from molecule_core.agent.prompt.loader import PARENT_VARIABLE, PromptLoader, PromptServerError
from molecule_core.agent.prompt.rebuilder import PromptRebuilder, PromptUpdate
from molecule_core.cli.tool import WORKSPACE_OPTION
from molecule_core.client.api import ApiClient
from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import CommandFailed
from molecule_core.common.ids import SystemRandomness
from molecule_core.common.settings import environment
from molecule_core.wire.schemas.prompts import BuildTrigger, DiffSection, PromptBuild, PromptView, diff_sections

_MAX_DIFF_LINES = 2000
_HOME_OPTION = click.option(
    "--home",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with config.yaml, prompt files and skills.  [default: CONFIGS_DIR, /configs, or the current folder]",
)
_JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class _PromptContext(NamedTuple):
    """Loader and client of a workspace's prompt, and the folder of its files."""

    loader: PromptLoader
    api: ApiClient
    folder: Path


@click.group("prompt")
def command() -> None:
    """Show, compare and watch the system prompt of an agent.

    WORKSPACE_ID, MOLECULE_WORKSPACE_TOKEN and PLATFORM_URL select the workspace, as for `molecule tool`."""


@command.command()
@_HOME_OPTION
@WORKSPACE_OPTION
@_JSON_OPTION
@click.option("--sections", is_flag=True, help="List only the sections: part, tokens, kind, title, source, omissions.")
@click.option("--offline", is_flag=True, help="Use only the agent's own files, without a server.")
@click.option(
    "--report", is_flag=True, help="Also report the prompt to the server, so that people see it on the canvas."
)
def show(home: Path | None, workspace: str | None, as_json: bool, sections: bool, offline: bool, report: bool) -> None:
    """Print the current prompt. Warnings go to standard error."""
    if offline and report:
        raise CommandFailed(reason="--report and --offline cannot be combined. Remove one of them.")
    folder = _prompt_folder(home)
    if offline:
        _print_build(
            assemble_prompt(PromptInputs(home=read_home(folder), peers=None)).build(BuildTrigger("command", "show")),
            as_json,
            sections,
        )
        return

    async def work(context: _PromptContext) -> None:
        build = await _build_prompt(context, "show")
        _print_build(build, as_json, sections)
        if report:
            await context.loader.upload_shared_files(read_home(folder))
            await context.loader.report_prompt(build)

    _run_with_context(work, folder, workspace)


@command.command("diff")
@_HOME_OPTION
@WORKSPACE_OPTION
@_JSON_OPTION
def _diff(home: Path | None, workspace: str | None, as_json: bool) -> None:
    """Print the differences between the prompt that was last reported to the server and the current prompt."""

    async def work(context: _PromptContext) -> None:
        reported = await context.loader.reported_prompt()
        before = [] if reported is None else msgspec.convert(reported, PromptView).build.sections
        changed = diff_sections(before, (await _build_prompt(context, "diff")).sections, _MAX_DIFF_LINES)
        if as_json:
            click.echo(msgspec.json.encode(changed).decode())
        else:
            click.echo("\n".join(_diff_lines(changed)) or "no changes")

    _run_with_context(work, _prompt_folder(home), workspace)


@command.command()
@_HOME_OPTION
@WORKSPACE_OPTION
@_JSON_OPTION
@click.option("--no-report", is_flag=True, help="Do not report prompts to the server.")
@click.option(
    "--until-eof", is_flag=True, help="Exit when standard input ends, for example when the parent process exits."
)
def watch(home: Path | None, workspace: str | None, as_json: bool, no_report: bool, until_eof: bool) -> None:
    """Watch the prompt, and print the reason and the differences of each change of its files or peers.

    Also uploads the files that config.yaml shares with children."""

    async def work(context: _PromptContext) -> None:
        printed: PromptUpdate | None = None

        async def on_rebuilt(new: PromptUpdate) -> None:
            nonlocal printed
            build = new.prompt.build(new.trigger)
            if new is not printed:
                _print_rebuild(build, new.diff, as_json)
            printed = new
            if not no_report:
                await context.loader.report_prompt(build)

        rebuilder = PromptRebuilder(
            context.loader,
            context.folder,
            on_rebuilt,
            events=context.api.events,
            on_warning=_print_warning,
            clock=SystemClock(),
            randomness=SystemRandomness(),
        )
        await (_run_until_eof(rebuilder.run()) if until_eof else rebuilder.run())

    _run_with_context(work, _prompt_folder(home), workspace)


# -- workspace and folder ----------------------------------------------------------------------------------------------


def _prompt_folder(named: Path | None) -> Path:
    if named is not None:
        return named
    configured = environment().get("CONFIGS_DIR", "").strip()
    if configured:
        return Path(configured).expanduser()
    return CONTAINER_FOLDER if CONTAINER_FOLDER.is_dir() and os.access(CONTAINER_FOLDER, os.R_OK) else Path.cwd()


def _run_with_context(work: Any, folder: Path, workspace: str | None) -> None:
    async def run() -> None:
        connections = select_workspace(read_configuration(environment()), workspace).workspaces
        if len(connections) > 1:
            raise CommandFailed(
                reason="the environment names several workspaces. "
                f"Choose one with --workspace: {', '.join(each.id for each in connections)}."
            )
        async with ApiClient(connections[0].url, connections[0].token) as api:
            await work(_PromptContext(_loader_for(api, connections[0].id), api, folder))

    try:
        asyncio.run(_unwrap_group(run()))
    except (ConfigurationError, PromptServerError) as error:
        raise CommandFailed(reason=error) from None
    except KeyboardInterrupt:
        return


def _loader_for(api: ApiClient, workspace_id: str) -> PromptLoader:
    expected_parent = environment().get(PARENT_VARIABLE, "").strip()
    return PromptLoader(api, workspace_id, clock=SystemClock(), expected_parent=expected_parent)


async def _unwrap_group(work: Coroutine[Any, Any, None]) -> None:
    """Run work; if a task group fails, raise its first exception instead of the group."""
    try:
        await work
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def _run_until_eof(work: Coroutine[Any, Any, None]) -> None:
    """Run work until standard input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    work_task, eof_task = asyncio.ensure_future(work), asyncio.ensure_future(_drain(reader))
    await asyncio.wait((work_task, eof_task), return_when=asyncio.FIRST_COMPLETED)
    eof_task.cancel()
    if work_task.done():
        return work_task.result()
    work_task.cancel()
    await asyncio.wait((work_task,))


async def _drain(reader: asyncio.StreamReader) -> None:
    """Read and discard the input, however long it is."""
    while await reader.read(1 << 16):
        pass


async def _build_prompt(context: _PromptContext, verb: str) -> PromptBuild:
    inputs = await context.loader.load_inputs(read_home(context.folder))
    return assemble_prompt(inputs).build(BuildTrigger("command", verb))


# -- output ------------------------------------------------------------------------------------------------------------


def _print_build(build: PromptBuild, as_json: bool, sections: bool) -> None:
    for warning in build.warnings:
        _print_warning(warning)
    if as_json:
        click.echo(msgspec.json.encode(build).decode())
    elif sections:
        for each in build.sections:
            left_out = f"  (without {each.shortened})" if each.shortened else ""
            click.echo(f"{each.part}  {each.tokens:>6}  {each.kind:<11}  {each.title}  {each.source}{left_out}")
        click.echo(f"about {build.tokens} of {build.budget} tokens")
    else:
        click.echo("\n\n".join(each.text for each in build.sections))


def _print_rebuild(build: PromptBuild, changed: list[DiffSection], as_json: bool) -> None:
    for each in build.warnings:
        _print_warning(each)
    if as_json:
        body = {"trigger": build.trigger, "hash": build.hash, "tokens": build.tokens, "diff": changed}
        click.echo(msgspec.json.encode({**body, "warnings": build.warnings}).decode())
        return
    why = f"{build.trigger.kind} {build.trigger.detail}".strip()
    click.echo(f"{build.hash[:12]}  about {build.tokens} of {build.budget} tokens  reason: {why}")
    for line in _diff_lines(changed):
        click.echo(line)


def _diff_lines(changed: list[DiffSection]) -> list[str]:
    lines = []
    for each in changed:
        lines.append(f"@ {each.part} {each.title}: {each.change}")
        lines += [f"{line.kind} {line.text}" for line in each.lines]
    return lines


def _print_warning(text: str) -> None:
    click.echo(f"molecule: warning: {' '.join(text.split())}", err=True)
