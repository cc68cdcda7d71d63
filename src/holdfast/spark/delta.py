"""A Delta Lake table: Spark writes the rows, one commit per batch makes them the table.

    lake/bronze/
      orders/                                  the table
        _delta_log/…                           says which of the files below are the table
        holdfast_batch=<batch id>/             the rows of one batch
          part-….parquet
          _holdfast.json                       its manifest, until the ledger has the batch too
        holdfast_batch=mixed/                  rows of several batches: merged, or compacted
      .holdfast/staging/bronze.orders/<batch id>/
        holdfast_batch=…/part-….parquet        a batch being written, on its way into the table
        _delta.json                            the commit it is to become
        _holdfast.json                         its manifest, written last

The directories are for Holdfast, not for readers: they are no partition columns. A file that is
in the table's directory and not in its log does not exist for a reader, so files are moved in
first and named by one commit. `docs/formats/delta.md` describes what a reader sees.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import TargetError
from holdfast.model import Batch, BatchManifest, Contents
from holdfast.spark.columns import BATCH_DIRECTORY
from holdfast.spark.delta_log import (
    LOG_DIRECTORY,
    LiveFile,
    Snapshot,
    as_stored,
    create_table,
    open_snapshot,
    transaction_version,
)
from holdfast.spark.delta_plan import PLAN_FORMAT, CommitPlan, read_plan, write_plan
from holdfast.spark.delta_rows import MIXED, Before, DeltaRows, batch_directory
from holdfast.spark.failures import translated
from holdfast.spark.filesystem import LocalFiles, is_local, join, local_path
from holdfast.spark.measures import Measures
from holdfast.spark.targets import Staging, Target
from holdfast.spark.writing import (
    MANIFEST,
    describe,
    full_schema,
    merges_into_table,
    read_manifest,
    write_manifest,
)


class DeltaTarget(Target):
    """A Delta table in a directory this process and Spark both see as local."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        table: str,
        path: str,
        staging: str,
        options: dict[str, str],
    ) -> None:
        self._table = table
        self._path = path
        self._staging = staging
        self._app_id = f"holdfast:{table}"
        # Elsewhere Spark and deltalake would need two sets of credentials; and deltalake takes
        # %20 for a space, where Spark does not.
        if not is_local(spark, path) or "%" in path:
            raise TargetError(
                f"{table}: a Delta table cannot be written to {path}.",
                hint='Choose a local path without "%", or another target format.',
            )
        self._files = LocalFiles()
        self._place = local_path(path)
        self._rows = DeltaRows(spark, table=table, place=self._place, options=options)

    @property
    def location(self) -> str:
        return self._path

    @property
    def adoption(self) -> str:
        return ""

    def contents(self) -> Contents:
        if not self._files.exists(self._path):
            return "absent"
        snapshot = self._snapshot()
        if snapshot is None:
            visible = [name for name in self._files.names(self._path) if name[0] not in "._"]
            return "foreign" if visible else "empty"
        # Under another name for the pipeline it was ours too, and its files still say so.
        ours = snapshot.last_transaction(self._app_id) is not None or any(
            file.path.startswith(f"{BATCH_DIRECTORY}=") for file in snapshot.files()
        )
        return "ours" if ours else "foreign"

    def staged(self, batch_id: str) -> BatchManifest | None:
        snapshot = self._snapshot()
        staged = read_manifest(self._files, self._staged(batch_id), self._table)
        if self._published(snapshot, batch_id):
            return staged or self._published_manifest(batch_id)
        plan = read_plan(self._files, self._staged(batch_id), self._table)
        # A plan that another writer has overtaken is worth nothing: it must be made again.
        usable = plan is not None and plan.fits(snapshot) and self._has_files(batch_id, plan)
        return staged if usable else None

    def is_published(self, batch_id: str) -> bool:
        return self._published(self._snapshot(), batch_id)

    def stage(self, staging: Staging) -> BatchManifest:
        batch = staging.batch
        with translated(f"{self._table}: writing batch {batch.batch_id}"):
            self.clear(batch.batch_id)
            snapshot = self._snapshot()
            if not batch.replaces_all and (snapshot is None) != (staging.before is None):
                raise self._overtaken()
            if snapshot is not None:
                snapshot.refuse_unsupported()
            schema = full_schema(staging)
            stored = as_stored(schema, self._table)
            place = self._staged(batch.batch_id)
            if snapshot is None or batch.replaces_all:
                measures = self._rows.write_batch(staging, stored, place)
                plan = self._plan(place, snapshot, stored, removes=(), overwrite=True)
            else:
                before = Before.of(snapshot, stored)
                if merges_into_table(staging):
                    measures, removes = self._rows.write_merged(staging, before, place)
                else:
                    removes = self._rows.write_kept(batch, before, place)
                    measures = self._rows.write_batch(staging, before.columns, place)
                plan = self._plan(
                    place, snapshot, before.columns, removes=removes, overwrite=before.retyped
                )
            return self._finish(staging, schema, measures, plan)

    def publish(self, batch: Batch) -> None:
        place = self._staged(batch.batch_id)
        plan = read_plan(self._files, place, self._table)
        manifest = read_manifest(self._files, place, self._table)
        if plan is None or manifest is None:
            return
        snapshot = self._snapshot()
        with translated(f"{self._table}: publishing batch {batch.batch_id}"):
            if not self._published(snapshot, batch.batch_id):
                self._refuse_overtaken(plan, snapshot)
                self._place_files(batch, plan, manifest)
                self._commit(batch, plan, snapshot)
            # The ledger will say that these rows are there: they must survive what it survives.
            self._files.make_durable(join(self._path, LOG_DIRECTORY))

    def clear(self, batch_id: str) -> None:
        place = self._staged(batch_id)
        with translated(f"{self._table}: clearing {place}"):
            plan = read_plan(self._files, place, self._table)
            if plan is not None and not self.is_published(batch_id):
                # Moved into the table, but never named by its log.
                for file in plan.adds:
                    self._files.delete(join(self._path, file.path))
            own = self._own(batch_id)
            self._files.delete(join(own, MANIFEST))
            if not self._files.names(own):
                self._files.delete(own)
            for name in self._files.names(self._staging):
                # What a crash left of earlier batches goes too. Ids are ordered by time: what a
                # newer run is writing stays, should this one have been overtaken.
                if name <= batch_id:
                    self._files.delete(join(self._staging, name))

    def schema(self) -> StructType:
        snapshot = self._snapshot()
        if snapshot is None:
            raise TargetError(
                f"{self._table}: there is no Delta table at {self.location}.",
                hint="Bring it back, or copy everything again: "
                f"holdfast run --full-refresh --table {self._table}",
            )
        return snapshot.columns

    def _snapshot(self) -> Snapshot | None:
        return open_snapshot(self._place, self._table)

    def _published(self, snapshot: Snapshot | None, batch_id: str) -> bool:
        # Equal, not "at least": a clock that was set back must not make a new batch look old.
        # Only the last batch of a table is ever asked for.
        return snapshot is not None and snapshot.last_transaction(
            self._app_id
        ) == transaction_version(batch_id)

    def _published_manifest(self, batch_id: str) -> BatchManifest:
        manifest = read_manifest(self._files, self._own(batch_id), self._table)
        if manifest is None:
            # Taking it for unpublished would copy its rows a second time.
            raise TargetError(
                f"{self._table}: batch {batch_id} is in the table, but its manifest was removed "
                f"from {self._own(batch_id)}.",
                hint="Put it back, or give up this batch and copy everything again: remove "
                f"{self.location}, then holdfast run --full-refresh --table {self._table}",
            )
        return manifest

    def _has_files(self, batch_id: str, plan: CommitPlan) -> bool:
        places = (self._staged(batch_id), self._path)
        return all(
            any(self._files.exists(join(place, file.path)) for place in places)
            for file in plan.adds
        )

    def _staged(self, batch_id: str) -> str:
        return join(self._staging, batch_id)

    def _own(self, batch_id: str) -> str:
        return join(self._path, batch_directory(batch_id))

    def _plan(
        self,
        place: str,
        snapshot: Snapshot | None,
        columns: StructType,
        *,
        removes: Sequence[LiveFile],
        overwrite: bool,
    ) -> CommitPlan:
        return CommitPlan(
            format=PLAN_FORMAT,
            kind="create" if snapshot is None else "overwrite" if overwrite else "append",
            version=snapshot.version if snapshot else None,
            columns=columns.json(),
            adds=tuple(self._rows.staged_files(place)),
            removes=() if overwrite else tuple(removes),
        )

    def _finish(
        self, staging: Staging, schema: StructType, measures: Measures, plan: CommitPlan
    ) -> BatchManifest:
        batch_id = staging.batch.batch_id
        place = self._staged(batch_id)
        own = f"{batch_directory(MIXED if merges_into_table(staging) else batch_id)}/"
        manifest = describe(
            staging,
            schema,
            measures,
            written=sum(file.rows for file in plan.adds if file.path.startswith(own)),
            whole_table=plan.kind == "overwrite",
        )
        write_plan(self._files, place, plan)
        self._files.make_durable(place)
        # Written last: a batch with a manifest is complete.
        write_manifest(self._files, place, manifest)
        return manifest

    def _place_files(self, batch: Batch, plan: CommitPlan, manifest: BatchManifest) -> None:
        for file in plan.adds:
            staged = join(self._staged(batch.batch_id), file.path)
            # Moved already, if an earlier try was interrupted.
            if self._files.exists(staged):
                self._files.rename(staged, join(self._path, file.path))
        write_manifest(self._files, self._own(batch.batch_id), manifest)

    def _commit(self, batch: Batch, plan: CommitPlan, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            create_table(self._place, self._table, plan.change, batch.batch_id, self._app_id)
            return
        prepared = snapshot.prepare(plan.change, batch.batch_id)
        if prepared:
            snapshot = self._snapshot()
            self._refuse_overtaken(plan, snapshot, since=prepared)
            assert snapshot is not None, "it was there, or it would not fit"
        snapshot.commit(plan.change, batch.batch_id, self._app_id)

    def _refuse_overtaken(
        self, plan: CommitPlan, snapshot: Snapshot | None, *, since: int = 0
    ) -> None:
        if not plan.fits(snapshot, since=since):
            raise self._overtaken()

    def _overtaken(self) -> TargetError:
        return TargetError(
            f"{self._table}: another writer changed the Delta table {self.location} while this "
            "batch was written.",
            hint="Run again: the batch was not published, and nothing is lost.",
        )
