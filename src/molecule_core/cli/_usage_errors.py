"""Says in errors about the command line what can be used instead. Imported only for an error."""

import click


def with_choices(error: click.UsageError) -> click.UsageError:
    """Return an error about an unknown option or command with those that exist, if none has a similar name."""
    ctx = error.ctx
    if ctx is None or getattr(error, "possibilities", None):
        return error
    if isinstance(error, click.NoSuchOption):
        return click.UsageError(f"{error.message} {_options_text(ctx)}", ctx)
    if isinstance(error, click.NoSuchCommand) and isinstance(ctx.command, click.Group):
        return click.UsageError(f"{error.message} {_commands_text(ctx, ctx.command)}", ctx)
    return error


def _options_text(ctx: click.Context) -> str:
    shown = [each for each in ctx.command.get_params(ctx) if isinstance(each, click.Option) and not each.hidden]
    names = [name for each in shown for name in (*each.opts, *each.secondary_opts) if name.startswith("--")]
    text = f"Use one of: {', '.join(names)}."
    return f"{text} {_commands_text(ctx, ctx.command)}" if isinstance(ctx.command, click.Group) else text


def _commands_text(ctx: click.Context, group: click.Group) -> str:
    return f"Commands of `{ctx.command_path}`: {', '.join(group.list_commands(ctx))}."
