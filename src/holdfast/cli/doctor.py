"""`doctor`: is everything there that a run will need?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from holdfast.cli.context import context_of
from holdfast.cli.output import OutputFormat, OutputOption, console, print_json

if TYPE_CHECKING:
    from holdfast.pipelines.findings import Finding

_CRITICAL_EXIT_CODE = 3
_STYLES = {"ok": "green", "warn": "yellow", "critical": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    context: typer.Context,
    check: Annotated[
        list[str] | None, typer.Option("--check", help="Only this check; may be repeated.")
    ] = None,
    output: OutputOption = OutputFormat.text,
) -> None:
    """Look at everything a run needs, from the configuration to the sinks, and name the fix."""
    from holdfast.pipelines.doctor import examine

    chosen = context_of(context)
    findings: list[Finding] = []
    out = console()
    for finding in examine(chosen.config, chosen.state_path, only=tuple(check or ())):
        findings.append(finding)
        if output is OutputFormat.text:
            out.print(
                Text.assemble(
                    (f"{finding.status:<9}", _STYLES[finding.status]),
                    f"{finding.check:<12} {finding.message}",
                ),
                soft_wrap=True,
            )
            if finding.status != "ok" and finding.fix:
                indented = finding.fix.replace("\n", "\n" + " " * 22)
                out.print(Text(f"{'':<22}{indented}", style="cyan"), soft_wrap=True)
    if output is OutputFormat.json:
        body = [
            {"check": f.check, "status": f.status, "message": f.message, "fix": f.fix}
            for f in findings
        ]
        print_json("doctor", {"findings": body})
    critical = any(finding.status == "critical" for finding in findings)
    raise typer.Exit(_CRITICAL_EXIT_CODE if critical else 0)
