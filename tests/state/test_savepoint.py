"""A savepoint carries state from any backend to any other, under any number of partitions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import StateDamaged, StateError, StateMismatch
from holdfast.state import (
    HOLDFAST_HASHES,
    TTL,
    ListState,
    Partition,
    Snapshot,
    Store,
    TableSchema,
    Timers,
    open_store,
    read_savepoint,
    seal_savepoint,
)

USER = pa.schema([("user", pa.int64())])
TOTALS = TableSchema(
    "totals",
    USER,
    pa.schema([("n", pa.int64()), ("pages", pa.list_(pa.string()))]),
    hashes=HOLDFAST_HASHES,
)
CLICKS = ListState.schema_of(
    "clicks", USER, pa.schema([("at", pa.int64())]), hashes=HOLDFAST_HASHES
)
ALARMS = Timers.schema_of("alarms", USER, hashes=HOLDFAST_HASHES)
TABLES = [TOTALS, CLICKS, ALARMS]
USERS = list(range(200))
BACKENDS = ["arrow", "heap", "rocksdb"]


def write(store: Store, partition: Partition) -> Snapshot:
    """Fill one partition over two epochs, with deletions."""
    keys = TableSchema("any", USER, pa.schema([]), hashes=HOLDFAST_HASHES)
    for epoch in range(2):
        with store.begin(epoch, now_ms=1000 * epoch) as transaction:
            table = transaction.table("totals")
            every = table.keys({"user": USERS})
            own = every.take(partition.owns(every.partition_hashes).nonzero()[0])
            users = own.batch(keys).column("user").to_pylist()
            pages = [[f"page {user}", None] if user % 3 else None for user in users]
            table.put(own, {"n": [user * 10 + epoch for user in users], "pages": pages})
            clicks = ListState(transaction, "clicks")
            clicks.append(clicks.owners({"user": users}), {"at": [epoch] * len(users)})
            timers = Timers(transaction, "alarms")
            due = pa.array([user * 1000 for user in users], pa.int64()).to_numpy()
            timers.set(timers.owners({"user": users}), due)
            if epoch == 1:
                gone = [user for user in users if user % 10 == 0]
                table.delete(table.keys({"user": gone}))
            snapshot = transaction.commit()
    return snapshot


def content(stores: list[Store]) -> dict[str, list[dict[str, object]]]:
    """Everything in all tables of all partitions, in a comparable order."""
    found: dict[str, list[dict[str, object]]] = {schema.name: [] for schema in TABLES}
    for store in stores:
        with store.begin(store.epoch + 1, now_ms=5000) as transaction:
            for schema in TABLES:
                for piece in transaction.table(schema.name).scan():
                    found[schema.name] += piece.to_pylist()
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def expected() -> dict[str, int]:
    """How many rows each table has."""
    return {"totals": 180, "clicks": 400, "alarms": 200}


@pytest.mark.parametrize("source", BACKENDS)
@pytest.mark.parametrize("target", BACKENDS)
@pytest.mark.parametrize("changelog", [False, True])
def test_state_moves_between_backends(
    tmp_path: Path, source: str, target: str, changelog: bool
) -> None:
    """What one backend held in two partitions, another holds in three, and can go on from there."""
    before = []
    for index in range(2):
        partition = Partition(index, 2)
        store = open_store(
            tmp_path / "old", TABLES, partition=partition, backend=source, changelog=changelog
        )
        write(store, partition)
        before.append(store)
    wanted = content(before)
    assert {name: len(rows) for name, rows in wanted.items()} == expected()
    seal_savepoint(
        tmp_path / "savepoint", [store.write_savepoint(tmp_path / "savepoint") for store in before]
    )
    for store in before:
        store.close()

    after = [
        open_store(
            tmp_path / "new",
            TABLES,
            partition=Partition(index, 3),
            backend=target,
            savepoint=tmp_path / "savepoint",
        )
        for index in range(3)
    ]
    assert [store.epoch for store in after] == [1, 1, 1]
    assert content(after) == wanted
    snapshots = []
    for store in after:
        snapshots.append(store.begin(2, now_ms=0).commit())
        store.close()
    reopened = [
        open_store(
            tmp_path / "new",
            TABLES,
            partition=Partition(index, 3),
            backend=target,
            snapshots=snapshots,
        )
        for index in range(3)
    ]
    assert content(reopened) == wanted
    for store in reopened:
        store.close()


def test_stamps_travel_with_a_savepoint(tmp_path: Path) -> None:
    """An entry that would have expired in the old backend expires in the new one."""
    ttl = {"totals": TTL(1500)}
    with open_store(tmp_path / "old", TABLES, ttl=ttl) as store:
        write(store, Partition())
        part = store.write_savepoint(tmp_path / "savepoint")
    seal_savepoint(tmp_path / "savepoint", [part])
    with open_store(
        tmp_path / "new", TABLES, ttl=ttl, backend="heap", savepoint=tmp_path / "savepoint"
    ) as store:
        for now_ms, alive in ((2499, True), (2500, False)):
            transaction = store.begin(2, now_ms=now_ms)
            table = transaction.table("totals")
            assert table.get(table.keys({"user": [1]})).found[0] == alive
            transaction.abort()


def test_a_savepoint_is_plain_arrow(tmp_path: Path) -> None:
    """Any Arrow library reads the files of a savepoint."""
    with open_store(tmp_path / "old", TABLES) as store:
        write(store, Partition())
        part = store.write_savepoint(tmp_path / "savepoint")
    (file,) = [file for file in part.files if file.table == "totals"]
    with pa.memory_map(str(tmp_path / "savepoint" / file.name)) as source:
        rows = pa.ipc.open_stream(source).read_all()
    assert sorted(rows["user"].to_pylist()) == [user for user in USERS if user % 10]
    assert rows.filter(pa.compute.equal(rows["user"], 7))["n"].to_pylist() == [71]


def test_an_unsealed_savepoint_is_refused(tmp_path: Path) -> None:
    """Parts without the document, or some of the parts, are not a savepoint."""
    partition = Partition(0, 2)
    with open_store(tmp_path / "old", TABLES, partition=partition) as store:
        write(store, partition)
        part = store.write_savepoint(tmp_path / "savepoint")
    with pytest.raises(StateError, match="not a savepoint"):
        open_store(tmp_path / "new", TABLES, savepoint=tmp_path / "savepoint")
    with pytest.raises(StateMismatch, match="not complete"):
        seal_savepoint(tmp_path / "savepoint", [part])


def test_a_changed_document_is_refused(tmp_path: Path) -> None:
    """A savepoint whose document was edited is damaged, and says which file it is."""
    with open_store(tmp_path / "old", TABLES) as store:
        write(store, Partition())
        part = store.write_savepoint(tmp_path / "savepoint")
    seal_savepoint(tmp_path / "savepoint", [part])
    document = tmp_path / "savepoint" / "savepoint.json"
    document.write_text(document.read_text().replace('"epoch": 1', '"epoch": 7'))
    with pytest.raises(StateDamaged, match=r"savepoint\.json"):
        read_savepoint(tmp_path / "savepoint")


def test_a_savepoint_with_other_tables_is_refused(tmp_path: Path) -> None:
    """A table that is no longer declared must be dropped by name."""
    with open_store(tmp_path / "old", TABLES) as store:
        write(store, Partition())
        part = store.write_savepoint(tmp_path / "savepoint")
    seal_savepoint(tmp_path / "savepoint", [part])
    fewer = [TOTALS, CLICKS]
    with pytest.raises(StateMismatch, match="alarms"):
        open_store(tmp_path / "new", fewer, savepoint=tmp_path / "savepoint")
    with open_store(
        tmp_path / "new", fewer, savepoint=tmp_path / "savepoint", drop=["alarms"]
    ) as store:
        assert len(list(store.begin(2, now_ms=0).table("totals").scan())) == 1


def test_writing_the_same_savepoint_twice_is_refused(tmp_path: Path) -> None:
    """A part that is there already is never overwritten."""
    with open_store(tmp_path / "old", TABLES) as store:
        write(store, Partition())
        store.write_savepoint(tmp_path / "savepoint")
        with pytest.raises(StateError, match="exists already"):
            store.write_savepoint(tmp_path / "savepoint")
