"""Commands put together, and what happens when one fails."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast._version import __version__
from holdfast.cli import checkpoint, demo, doctor, plan, schema, setup, state, status
from holdfast.cli import run as run_command
from holdfast.cli.context import Context
from holdfast.cli.output import print_error
from holdfast.errors import HoldfastError, Interrupted, UsageError
from holdfast.pipelines.signals import interrupting_at_once

# Found through its subclass: Typer carries a click of its own, whose classes are not click's.
_Mistyped: Any = typer.BadParameter.__base__


@contextmanager
def _mistyped_fails() -> Iterator[None]:
    try:
        yield
    except _Mistyped as error:
        # Typer's own code for it is 2, which here says that some tables were copied.
        error.exit_code = 1
        raise


class _Commands(TyperGroup):
    """Every command; one that is mistyped ends like any other mistake."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _mistyped_fails():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _mistyped_fails():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            # Typer would end without a word.
            raise Interrupted("Interrupted.", hint="Run it again to go on.") from None
        except typer.Abort:
            raise UsageError(
                "Nothing was changed: the question was not answered with yes.",
                hint="Answer y, or say so beforehand: --yes",
            ) from None


app = typer.Typer(
    name="holdfast",
    cls=_Commands,
    help="Durable state for PySpark pipelines: copy tables, deliver streams, and never miss or "
    "double a row.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

setup.register(app)
plan.register(app)
run_command.register(app)
status.register(app)
state.register(app)
checkpoint.register(app)
schema.register(app)
doctor.register(app)
demo.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    config: Annotated[Path, typer.Option("--config", "-c", help="The configuration file.")] = Path(
        "holdfast.toml"
    ),
    state_path: Annotated[
        Path | None,
        typer.Option("--state-path", help="Use this ledger instead of the configured one."),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Durable state for PySpark pipelines."""
    context.obj = Context(config, state_path)


def run() -> None:
    """Run the command line; a user's mistake ends in a message, never in a stack trace."""
    # py4j reports an interrupted call to the root logger, which would print its trace.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        # Also before a run has begun: leases are given back and Java is ended.
        with interrupting_at_once():
            app()
    except HoldfastError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print_error(HoldfastError("Interrupted."))
        sys.exit(130)
