"""Kept epochs stay whole; what only forgotten epochs named goes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import failpoints
from holdfast.errors import StateDamaged, StateMismatch
from holdfast.state import (
    HOLDFAST_HASHES,
    Catalogue,
    Directory,
    Snapshot,
    TableSchema,
    open_store,
)

TABLE = TableSchema(
    "totals",
    pa.schema([("user", pa.int64())]),
    pa.schema([("n", pa.int64())]),
    hashes=HOLDFAST_HASHES,
)
EPOCHS = 12


@pytest.fixture(params=["arrow", "heap", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> str:
    """Every backend in turn."""
    return str(request.param)


def fill(directory: Path, backend: str) -> Catalogue:
    """Keep a dozen epochs, each of which changes every third user."""
    catalogue = Catalogue(Directory(directory))
    with open_store(directory, [TABLE], backend=backend) as store:
        for epoch in range(EPOCHS):
            with store.begin(epoch, now_ms=0) as transaction:
                table = transaction.table("totals")
                users = [user for user in range(300) if user % 3 == epoch % 3]
                table.put(table.keys({"user": users}), {"n": [epoch] * len(users)})
                catalogue.keep([transaction.commit()])
    return catalogue


def state(directory: Path, backend: str, snapshots: tuple[Snapshot, ...]) -> dict[int, int]:
    """Everything an epoch held."""
    with open_store(directory, [TABLE], backend=backend, snapshots=snapshots) as store:
        pieces = list(store.begin(EPOCHS + 1, now_ms=0).table("totals").scan())
        return {row["user"]: row["n"] for piece in pieces for row in piece.to_pylist()}


def expected(epoch: int) -> dict[int, int]:
    """What the state was at the end of an epoch."""
    return {
        user: max(e for e in range(epoch + 1) if user % 3 == e % 3)
        for user in range(300)
        if user % 3 <= epoch
    }


def test_every_kept_epoch_opens_as_it_was(tmp_path: Path, backend: str) -> None:
    """Merging files for later epochs takes nothing away from earlier ones."""
    catalogue = fill(tmp_path, backend)
    assert catalogue.epochs() == list(range(EPOCHS))
    for epoch in range(EPOCHS):
        catalogue.verify(epoch)
        assert state(tmp_path, backend, catalogue.snapshots(epoch)) == expected(epoch)


def test_expiring_removes_only_what_no_kept_epoch_names(tmp_path: Path, backend: str) -> None:
    """After forgetting most epochs the kept ones are whole, and nothing else is left."""
    catalogue = fill(tmp_path, backend)
    removed = catalogue.expire(keep=[4, 11])
    assert removed
    assert catalogue.epochs() == [4, 11]
    for epoch in (4, 11):
        catalogue.verify(epoch)
        assert state(tmp_path, backend, catalogue.snapshots(epoch)) == expected(epoch)
    named = {
        file.name for epoch in (4, 11) for one in catalogue.snapshots(epoch) for file in one.files
    }
    left = {
        path.relative_to(tmp_path).as_posix()
        for path in tmp_path.rglob("*")
        if path.is_file() and path.parent.name != "epochs"
    }
    assert left == named


def test_expiring_goes_on_after_a_crash(tmp_path: Path, backend: str) -> None:
    """Ended after any removal, the kept epochs are whole and the next call finishes the work."""
    catalogue = fill(tmp_path, backend)
    crashes = 0
    while catalogue.epochs() != [11]:
        budget = crashes * 3 + 1

        def crash(step: str, subject: str) -> None:
            nonlocal budget
            if step == "state.remove":
                budget -= 1
                if budget == 0:
                    raise KeyboardInterrupt

        failpoints.observe(crash)
        try:
            catalogue.expire(keep=[11])
        except KeyboardInterrupt:
            crashes += 1
        finally:
            failpoints.observe(None)
        catalogue.verify(11)
    assert crashes > 1
    assert state(tmp_path, backend, catalogue.snapshots()) == expected(11)


def test_collecting_removes_what_crashed_attempts_left(tmp_path: Path, backend: str) -> None:
    """Files that no kept epoch names are found and removed."""
    catalogue = fill(tmp_path, backend)
    orphan = tmp_path / "12_zombie_totals_0.run"
    orphan.write_bytes(b"half a file")
    assert catalogue.collect() == [orphan.name]
    assert state(tmp_path, backend, catalogue.snapshots()) == expected(11)


def test_a_damaged_document_protects_everything(tmp_path: Path) -> None:
    """If a kept epoch cannot be read, expiring removes nothing."""
    catalogue = fill(tmp_path, "arrow")
    document = tmp_path / "epochs" / "4.json"
    document.write_text(document.read_text()[:-20])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StateDamaged, match=r"4\.json"):
        catalogue.expire(keep=[4, 11])
    assert sorted(tmp_path.rglob("*")) == before


def test_an_unknown_epoch_is_refused(tmp_path: Path) -> None:
    """Asking for an epoch that is not kept names those that are."""
    catalogue = fill(tmp_path, "heap")
    with pytest.raises(StateMismatch, match="Epoch 99 is not kept") as refusal:
        catalogue.snapshots(99)
    assert "0, 1, 2" in refusal.value.hint


def test_verifying_finds_a_flipped_bit(tmp_path: Path, backend: str) -> None:
    """One changed byte in one file is found, and the file is named."""
    catalogue = fill(tmp_path, backend)
    file = catalogue.snapshots()[0].files[-1]
    path = tmp_path / file.name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(StateDamaged, match=file.name):
        catalogue.verify()
