"""The JSON ledger's document.

    {
      "format": 1,
      "checksum": "sha256:<hex>",
      "records": {
        "<namespace>": {
          "<key>": [
            {"version": 1, "created_at": "2025-03-15T14:30:00.000000Z", "text": "..."},
            {"version": 2, "created_at": "2025-03-15T14:31:00.000000Z", "base64": "..."},
            {"version": 3, "created_at": "2025-03-15T14:32:00.000000Z", "deleted": true}
          ]
        }
      }
    }

Namespaces and keys are in code-point order, versions oldest first, one version a line. A value
that is UTF-8 is `text`, any other `base64`. The checksum is over `records` as compact JSON with
sorted keys in UTF-8, so that reformatting the file does no harm and changing a value does.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.clock import isoformat
from holdfast.errors import LedgerDamaged
from holdfast.ledger.book import Book
from holdfast.ledger.contract import Record
from holdfast.ledger.file_errors import damaged

_HINT = (
    "Restore a copy of the file. It is written whole or not at all, so another program changed "
    "it, or the disk did."
)


@dataclass(frozen=True, slots=True)
class Document:
    """A decoded file: its format, and its records as that format laid them out."""

    format: int
    records: dict[str, dict[str, list[dict[str, Any]]]]

    def book(self, location: str) -> Book:
        """Return the records as a book."""
        try:
            return Book.of(_walk(self.records))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(location, f"a record lacks or misstates a field ({error})") from error


def encode(book: Iterable[Record], format_version: int) -> bytes:
    """Write a book as the text of a document."""
    records: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for record in book:
        records.setdefault(record.namespace, {}).setdefault(record.key, []).append(_entry(record))
    head = f'{{\n  "format": {format_version},\n  "checksum": "{_checksum(records)}",\n'
    return f'{head}  "records": {_pretty(records)}\n}}\n'.encode()


def decode(raw: bytes, location: str) -> Document:
    """Read the text of a document and refuse one that is not whole."""
    if not raw.strip():
        raise _damaged(location, "the file is empty")
    try:
        content = json.loads(raw)
    except ValueError as error:
        raise _damaged(location, f"the file is cut short or is not JSON ({error})") from error
    match content:
        case {"format": int(found), "checksum": str(checksum), "records": dict(records)}:
            if checksum != _checksum(records):
                raise _damaged(location, "the checksum does not match the records")
            return Document(found, records)
        case _:
            raise _damaged(location, "the file is JSON, but not a Holdfast ledger")


def _entry(record: Record) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "version": record.version,
        "created_at": isoformat(record.created_at),
    }
    if record.value is None:
        return entry | {"deleted": True}
    try:
        return entry | {"text": record.value.decode()}
    except UnicodeDecodeError:
        return entry | {"base64": base64.b64encode(record.value).decode()}


def _walk(records: dict[str, dict[str, list[dict[str, Any]]]]) -> Iterator[Record]:
    for namespace, keys in records.items():
        for key, entries in keys.items():
            for entry in entries:
                moment = datetime.fromisoformat(entry["created_at"])
                yield Record(namespace, key, entry["version"], moment, _value(entry))


def _value(entry: dict[str, Any]) -> bytes | None:
    if entry.get("deleted"):
        return None
    if "text" in entry:
        return str(entry["text"]).encode()
    return base64.b64decode(entry["base64"], validate=True)


def _checksum(records: dict[str, Any]) -> str:
    canonical = json.dumps(records, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode(errors='surrogatepass')).hexdigest()}"


def _pretty(records: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    # json.dumps with an indent is slow and gives every field a line of its own.
    namespaces = (
        f"    {_line(namespace)}: {{\n{_keys(keys)}\n    }}" for namespace, keys in records.items()
    )
    return _between("{", ",\n".join(namespaces), "  }")


def _keys(keys: dict[str, list[dict[str, Any]]]) -> str:
    return ",\n".join(
        f"      {_line(key)}: [\n{_versions(entries)}\n      ]" for key, entries in keys.items()
    )


def _versions(entries: list[dict[str, Any]]) -> str:
    return ",\n".join(f"        {_line(entry)}" for entry in entries)


def _between(first: str, lines: str, last: str) -> str:
    return f"{first}\n{lines}\n{last}" if lines else "{}"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _damaged(location: str, what: str) -> LedgerDamaged:
    return damaged(location, what, _HINT)
