"""Typed access to the records of one namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.errors import LedgerDamaged, LedgerError
from holdfast.ledger.contract import Record, Transaction, VersionInfo

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class Collection(Generic[T]):
    """The records of one namespace as values of one type, usually a frozen dataclass.

    Values are stored as JSON with sorted keys: equal values are equal bytes.
    """

    def __init__(self, namespace: str, kind: type[T]) -> None:
        self.namespace = namespace
        self._kind = kind

    def get(self, tx: Transaction, key: str) -> T | None:
        """Return the newest value, or `None` if there is none or it was deleted."""
        record = tx.get(self.namespace, key)
        return None if record is None else self._decode(record)

    def read(self, tx: Transaction, key: str, version: int) -> T | None:
        """Return the value of one version; `None` for a deletion or a version not kept."""
        record = tx.read(self.namespace, key, version)
        return None if record is None else self._decode(record)

    def put(self, tx: Transaction, key: str, value: T, expect: int | None = None) -> int:
        """Write the next version and return its number; see `Transaction.put` for `expect`."""
        return tx.put(self.namespace, key, self._encode(key, value), expect=expect).version

    def delete(self, tx: Transaction, key: str, expect: int | None = None) -> bool:
        """Delete a value, keeping its history; `False` if there was nothing to delete."""
        return tx.delete(self.namespace, key, expect=expect)

    def items(self, tx: Transaction, prefix: str = "") -> Iterator[tuple[str, T]]:
        """Walk the keys that start with `prefix` and their values, in key order."""
        for record in tx.items(self.namespace, prefix):
            value = self._decode(record)
            if value is not None:
                yield record.key, value

    def history(
        self, tx: Transaction, key: str, limit: int | None = None
    ) -> list[tuple[VersionInfo, T | None]]:
        """List the kept versions with their values, newest first, at most `limit` of them."""
        return [
            (info, self.read(tx, key, info.version))
            for info in tx.versions(self.namespace, key)[:limit]
        ]

    def prune(self, tx: Transaction, key: str, keep: int) -> int:
        """Forget all but the newest `keep` versions and say how many went."""
        return tx.prune(self.namespace, key, keep)

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        # Imported on first use: it takes longer than everything else a short command does.
        from pydantic import TypeAdapter

        return TypeAdapter(self._kind)

    def _encode(self, key: str, value: T) -> bytes:
        try:
            plain = self._adapter.dump_python(value, mode="json", warnings="error")
            text = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            self._adapter.validate_json(text)  # what cannot be read back must not be stored
        except ValueError as error:
            raise LedgerError(
                f"{self.namespace}/{key} was given a value that is no {self._kind.__name__}: "
                f"{error}"
            ) from error
        return text.encode()

    def _decode(self, record: Record) -> T | None:
        if record.value is None:
            return None
        try:
            return self._adapter.validate_json(record.value)
        except ValueError as error:
            raise LedgerDamaged(
                f"{record.namespace}/{record.key} version {record.version} is not readable as "
                f"{self._kind.__name__}: {error}",
                hint="Roll the record back to an older version, or restore a copy of the ledger.",
            ) from error
