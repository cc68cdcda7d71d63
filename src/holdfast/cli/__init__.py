"""The `holdfast` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its code."""
    from holdfast.cli.app import run

    run()


__all__ = ["main"]
