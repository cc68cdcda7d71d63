"""`[state]`: where the ledger is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from holdfast.config.section import Finding, Section
from holdfast.config.values import FilePath, one_of

Backend = Literal["local"]

_LATER_BACKENDS: Final = ("s3", "gcs", "azure", "valkey", "tiered", "postgres")


class StateConfig(Section):
    """The ledger, and where it survives."""

    backend: Annotated[Backend, one_of(Backend)] = "local"
    path: FilePath = Field(default=Path(".holdfast/ledger.db"), validate_default=True)

    @classmethod
    def refused_outright(cls, data: Mapping[str, Any]) -> Finding | None:
        """Refuse a backend of a later version without complaining about its other keys."""
        backend = data.get("backend")
        if backend not in _LATER_BACKENDS:
            return None
        return Finding(("backend",), f'"{backend}" is not available in this version; use "local"')
