"""Which epochs of an operator are kept in a directory, and which files they need.

For state that is used on its own, without a pipeline's checkpoints: `epochs/<epoch>.json`
holds the snapshots of all partitions at the end of an epoch. An epoch counts once its document
is there; a file is removed only when no kept epoch names it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from holdfast.errors import StateDamaged, StateMismatch
from holdfast.state import documents
from holdfast.state.files import Directory, remove
from holdfast.state.snapshot import Snapshot

_FOLDER = "epochs"

_OWN = re.compile(
    r"(\d+|spill)_[^/]+\.run$"  # runs
    r"|epoch-\d+_[^/]+/"  # checkpoints of RocksDB
    r"|work-[^/]+/"  # databases that were running
    rf"|{_FOLDER}/\.[^/]+\.draft$"  # documents that were being written
)
"""The names that the engine gives, relative to the directory."""


class Catalogue:
    """The kept epochs of one operator's directory."""

    def __init__(self, directory: str | Path | Directory) -> None:
        self.directory = (
            directory if isinstance(directory, Directory) else Directory(Path(directory))
        )
        self._folder = self.directory.path / _FOLDER
        Directory(self._folder)

    def keep(self, snapshots: Sequence[Snapshot]) -> None:
        """Make the snapshots of all partitions at the end of one epoch count."""
        epochs = {snapshot.epoch for snapshot in snapshots}
        counts = {snapshot.partition.count for snapshot in snapshots}
        indexes = sorted(snapshot.partition.index for snapshot in snapshots)
        if len(epochs) != 1 or len(counts) != 1 or indexes != list(range(*counts)):
            raise StateMismatch(
                f"Snapshots of epochs {sorted(epochs)} and partitions {indexes} cannot be kept "
                "as one.",
                hint="Give the snapshots of all partitions of one epoch, each once.",
            )
        content = {"snapshots": [snapshot.document() for snapshot in snapshots]}
        documents.save(self._document(*epochs), content)

    def epochs(self) -> list[int]:
        """Return the kept epochs, the oldest first."""
        names = [path.stem for path in self._folder.glob("*.json")]
        return sorted(int(name) for name in names if name.isdecimal())

    def snapshots(self, epoch: int | None = None) -> tuple[Snapshot, ...]:
        """Return the snapshots of an epoch, or of the newest; none if nothing is kept."""
        epochs = self.epochs()
        if epoch is None:
            if not epochs:
                return ()
            epoch = epochs[-1]
        if epoch not in epochs:
            raise StateMismatch(
                f"Epoch {epoch} is not kept in {self.directory.path}.",
                hint=f"The kept epochs are {', '.join(map(str, epochs)) or 'none'}.",
            )
        content = documents.load(self._document(epoch))
        return tuple(Snapshot.from_document(document) for document in content["snapshots"])

    def verify(self, epoch: int | None = None) -> None:
        """Read every file of an epoch and refuse one that is not what was written."""
        for snapshot in self.snapshots(epoch):
            for file in snapshot.files:
                self.directory.verify(file)

    def expire(self, keep: Collection[int]) -> list[str]:
        """Forget all other epochs and remove the files that only they named.

        What is kept is read first: if one of the kept epochs cannot be read, nothing is removed.
        """
        protected = {
            file.name
            for epoch in sorted(keep)
            for snapshot in self.snapshots(epoch)
            for file in snapshot.files
        }
        removed = []
        for epoch in [epoch for epoch in self.epochs() if epoch not in keep]:
            named = self._named_by(epoch)
            # The document goes last: a crash in between leaves names without files only in an
            # epoch that was to go anyway, and the next call ends the work.
            for name in sorted(named - protected):
                self._remove(name)
                removed.append(name)
            remove(self._document(epoch))
        return removed

    def _named_by(self, epoch: int) -> set[str]:
        """Return the files of an epoch that is to go; of a damaged one, `collect` finds them."""
        try:
            return {file.name for one in self.snapshots(epoch) for file in one.files}
        except StateDamaged:
            return set()

    def collect(self) -> list[str]:
        """Remove files of the engine that no kept epoch names: what crashed attempts left.

        Only while no store is open in the directory. Files of other names, and savepoints, are
        left alone.
        """
        protected = {
            file.name
            for epoch in self.epochs()
            for snapshot in self.snapshots(epoch)
            for file in snapshot.files
        }
        removed = []
        for path in sorted(self.directory.path.rglob("*")):
            name = path.relative_to(self.directory.path).as_posix()
            if path.is_file() and _OWN.match(name) and name not in protected:
                self._remove(name)
                removed.append(name)
        for path in sorted(self.directory.path.glob("*-*/"), reverse=True):
            if _OWN.match(f"{path.name}/") and not any(path.iterdir()):
                path.rmdir()
        return removed

    def _remove(self, name: str) -> None:
        """Remove a file, and the directory it was alone in."""
        path = self.directory.path / name
        remove(path)
        if path.parent not in (self.directory.path, self._folder):
            # Not empty yet, or gone with its last file when a crash cut this short.
            with contextlib.suppress(OSError):
                path.parent.rmdir()

    def _document(self, epoch: int) -> Path:
        return self._folder / f"{epoch}.json"
