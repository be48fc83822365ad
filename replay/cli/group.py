"""The `replay` command group: lists its commands without importing them, imports the one that runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from replay.cli import COMMANDS, GROUPS, typed
from replay.cli.plain import PlainValues

WIDEST = 100  # columns of help: it is read


class ReplayCommand(PlainValues, TyperCommand):
    """A command whose help shows its options in groups, and ends with examples.

    groups: title -> names of parameters of the function, in the order of the help. Options in none come last.
    """

    groups: Mapping[str, Sequence[str]] = MappingProxyType({})
    examples: Sequence[str] = ()

    def invoke(self, ctx: Any) -> Any:
        from replay.cli.common import Url

        for name, value in ctx.params.items():
            if isinstance(value, Url):
                ctx.params[name] = _downloaded(value, bool(ctx.params.get("quiet") or ctx.params.get("json")))
        return super().invoke(ctx)

    def _arguments(self) -> dict[str, str]:
        """Parameter -> as help names it; what may be left out is in brackets."""
        arguments = [item for item in self.params if item.param_type_name == "argument"]
        return {item.name: f"{item.metavar}" if item.required else f"[{item.metavar}]" for item in arguments}

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *self._arguments().values()]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments = self._arguments()
        records = {item.name: _plain(*item.get_help_record(ctx) or ("", "")) for item in self.get_params(ctx)}
        records.update((name, (shown, records[name][1])) for name, shown in arguments.items())
        grouped = {*arguments, *(name for names in self.groups.values() for name in names)}
        rest = "Other" if self.groups else "Options"
        sections = {
            "Arguments": arguments, **self.groups, rest: [name for name in records if name not in grouped]
        }  # fmt: skip
        for title, names in sections.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([records[name] for name in names])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


def _downloaded(url: str, hidden: bool) -> Path:
    from replay.download import downloaded
    from replay.report.streams.progress import StageLine

    with StageLine(hidden=hidden) as line:
        return downloaded(url, line.show)


def _plain(name: str, help: str) -> tuple[str, str]:
    """An option and its help, with `[default: all]` for `[default: (all); x>=1]`."""
    text, bracket, notes = help.partition("  [")
    kept = [
        re.sub(
            r"^([\d.]+)<=x<=([\d.]+)$", r"from \1 to \2", re.sub(r"^default: \((.*)\)$", r"default: \1", note)
        )
        for note in notes.removesuffix("]").split("; ")
        if note and not note.startswith("x>=")
    ]
    return name, f"{text}{bracket}{'; '.join(kept)}]" if kept else text


class LazyGroup(PlainValues, TyperGroup):
    """A group whose help needs only `COMMANDS`; a command's module is imported when that command is resolved."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        summary = COMMANDS[cmd_name]
        if self._listing:
            return TyperCommand(cmd_name, help=summary, short_help=summary)
        name = cmd_name.replace("-", "_")
        module = import_module(f"replay.cli.{name}")
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(cmd_name, cls=ReplayCommand, context_settings=getattr(module, "CONTEXT", None))(
            getattr(module, name)
        )
        command: Any = typer.main.get_command(app)
        command.groups = getattr(module, "OPTIONS", {})
        command.examples = getattr(module, "EXAMPLES", ())
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=2, cutoff=0.6)
            proposal = f" (Possible commands: {', '.join(near)})" if near else ""
            ctx.fail(f"No such command {name!r}{proposal}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None  # typer itself would end with 130 and say nothing

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        widest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), summary) for name, summary in commands.items()])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def _show_version(asked: bool) -> None:
    if not asked:
        return
    if "--json" in typed():
        from replay.doctor.facts import gather
        from replay.report.streams.json import print_document
        from replay.results.documents import VERSION

        print_document(VERSION, gather())
    else:
        from replay import __version__

        typer.echo(f"replay {__version__}")
    raise typer.Exit


def _only_with_version(asked: bool) -> None:
    if asked:
        raise typer.BadParameter("goes with --version here; for a command it comes after the command's name")


def build() -> Any:
    """The whole command line as one click command."""
    app = typer.Typer(
        name="replay",
        cls=LazyGroup,
        add_completion=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    )

    @app.callback()
    def replay(
        version: bool = typer.Option(
            False, "--version", callback=_show_version, is_eager=True, help="Print the version."
        ),
        json: bool = typer.Option(
            False, "--json", callback=_only_with_version, help="With --version: all that a bug report needs."
        ),
    ) -> None:
        """Capture CUDA kernel launches into one file and replay them, on this GPU, another one, or none."""

    return typer.main.get_command(app)
