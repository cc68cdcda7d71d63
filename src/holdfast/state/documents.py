"""Small JSON documents with a checksum: there whole and unchanged, or refused by name.

{"format": 1, "checksum": "xxh3_128 of the content as compact JSON, keys sorted",
 "content": {...}}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_hexdigest

from holdfast.errors import StateFormatMismatch
from holdfast.state.files import damaged, write_document

FORMAT = 1


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a document durably, in place of an older one of the same name."""
    document = {"format": FORMAT, "checksum": _checksum(content), "content": content}
    write_document(path, json.dumps(document, indent=1).encode())


def load(path: Path) -> dict[str, Any]:
    """Read a document and refuse it if it is not what was written."""
    try:
        document = json.loads(path.read_bytes())
        version, recorded, content = (
            document["format"],
            document["checksum"],
            document["content"],
        )
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None
    except (ValueError, KeyError, TypeError):
        raise damaged(path, "it is not a document of keyed state") from None
    if version != FORMAT:
        raise StateFormatMismatch(
            f"The document {path} has format {version!r}; this version reads format {FORMAT}.",
            hint="Open it with the version of Holdfast that wrote it.",
        )
    if _checksum(content) != recorded:
        raise damaged(path, "its checksum is not the one recorded when it was written")
    return dict(content)


def _checksum(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return str(xxh3_128_hexdigest(canonical.encode()))
