"""What a directory of epochs remembers about itself, in two small JSON files.

<path>/_holdfast/sink.json                    SinkRecord: whose directory it is
<path>/holdfast_epoch=<epoch>/_holdfast.json  EpochManifest: what one epoch holds
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter
from pyspark.sql.types import StructType

from holdfast.errors import SinkRefused
from holdfast.model import Token
from holdfast.spark.schemas import parse_schema

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """Whose a directory is, and what can not be seen from its epochs.

    Written when a generation begins, at a roll-back, and when columns change; never per epoch.
    """

    format: int
    pipeline: str
    sink: str
    file_format: str
    generation: int
    """Batches of earlier generations are refused."""
    rolled_back_to: str | None
    """The token of the last roll-back; the last one taken if no epoch has a later one."""
    retiring: int | None
    """Epochs after this one, of earlier generations, are being moved away; `None` when done."""
    columns: str | None
    """Every column so far, as Spark writes a schema in JSON."""

    @property
    def rollback_token(self) -> Token | None:
        """`rolled_back_to` as a token."""
        return None if self.rolled_back_to is None else Token.parse(self.rolled_back_to)

    @property
    def schema(self) -> StructType | None:
        """`columns` as a schema."""
        return None if self.columns is None else parse_schema(self.columns)


@dataclass(frozen=True, slots=True)
class EpochManifest:
    """What one epoch's directory holds."""

    format: int
    token: str
    rows: int | None
    files: tuple[str, ...]
    """The names beside it; fewer are there only if a copy was interrupted."""

    @property
    def parsed_token(self) -> Token:
        """The token it was delivered under."""
        return Token.parse(self.token)


_RECORDS: Final = TypeAdapter(SinkRecord)
_MANIFESTS: Final = TypeAdapter(EpochManifest)
_Document = TypeVar("_Document", SinkRecord, EpochManifest)


def dump(document: SinkRecord | EpochManifest) -> str:
    """Write either of them as text."""
    return json.dumps(asdict(document), indent=2) + "\n"


def read_record(text: str, place: str, sink: str) -> SinkRecord:
    """Read `sink.json`."""
    record = _read(_RECORDS, text, place, sink)
    if record.rolled_back_to is not None:
        _token(record.rolled_back_to, place, sink)
    return record


def read_manifest(text: str, place: str, sink: str) -> EpochManifest:
    """Read the manifest of an epoch."""
    manifest = _read(_MANIFESTS, text, place, sink)
    _token(manifest.token, place, sink)
    return manifest


def _read(documents: TypeAdapter[_Document], text: str, place: str, sink: str) -> _Document:
    try:
        found: Any = json.loads(text)
        if isinstance(found, Mapping) and found.get("format", FORMAT) != FORMAT:
            raise SinkRefused(
                f"{sink}: {place} was written by another version of Holdfast "
                f"(format {found['format']}; this one knows {FORMAT}).",
                hint="Run the version that wrote it, or choose another path.",
            )
        return documents.validate_python(found)
    except ValueError as error:
        raise _damaged(place, sink) from error


def _token(text: str, place: str, sink: str) -> None:
    try:
        Token.parse(text)
    except ValueError as error:
        raise _damaged(place, sink) from error


def _damaged(place: str, sink: str) -> SinkRefused:
    return SinkRefused(
        f"{sink}: {place} is damaged.", hint="Put it back from a backup, or choose another path."
    )
