"""The conformance suite of the checkpoint location: what every `ObjectStore` must do.

class TestMyObjects(ObjectsConformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.path = tmp_path / "files"

    def open(self):
        return MyObjects(self.path)

    def stored(self, key):
        ...  # read the file without MyObjects
"""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest

from holdfast.errors import ObjectError, ObjectExists, ObjectMissing
from holdfast.objects import ObjectStore, describe

KEY = "payments/files/0_1-0.run"
"""Where the suite writes unless a test is about keys."""


class ObjectsConformance:
    """Everything a checkpoint location must do; subclass it and fill in `open` and `stored`."""

    @abstractmethod
    def open(self) -> ObjectStore:
        """Return a new handle on the location of this test, which is empty at first."""

    @abstractmethod
    def stored(self, key: str) -> bytes | None:
        """Return a file's content, or `None`, without using the store under test."""

    @pytest.fixture
    def objects(self) -> ObjectStore:
        """Open the location for one test."""
        return self.open()

    @pytest.mark.parametrize("content", [b"", b"rows", bytes(range(256)) * 20_000])
    def test_what_was_put_is_there(self, objects: ObjectStore, content: bytes) -> None:
        """A file has every byte it was given, for every handle."""
        objects.put(KEY, content)
        assert self.stored(KEY) == content
        assert self.open().get(KEY) == content

    def test_put_again(self, objects: ObjectStore) -> None:
        """The same file again is harmless."""
        objects.put(KEY, b"rows")
        objects.put(KEY, b"rows")
        assert self.stored(KEY) == b"rows"
        assert [info.key for info in objects.list()] == [KEY]

    def test_absent_before(self, objects: ObjectStore) -> None:
        """Only the first one to write a key writes it."""
        objects.put_if_absent(KEY, b"first")
        with pytest.raises(ObjectExists, match=r"0_1-0\.run"):
            self.open().put_if_absent(KEY, b"second")
        assert self.stored(KEY) == b"first"
        assert [info.key for info in objects.list()] == [KEY]

    def test_absent_again(self, objects: ObjectStore) -> None:
        """A key whose file was removed can be written again."""
        objects.put_if_absent(KEY, b"first")
        objects.delete(KEY)
        objects.put_if_absent(KEY, b"second")
        assert self.stored(KEY) == b"second"

    def test_threads_race_for_a_key(self) -> None:
        """Of threads that write one key at once exactly one wins, and its file is the one."""
        start = Barrier(8)

        def write(number: int) -> bool:
            objects = self.open()
            start.wait()
            try:
                objects.put_if_absent(KEY, b"%d" % number * 1000)
            except ObjectExists:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(write, range(8)))
        assert won.count(True) == 1
        assert self.stored(KEY) == b"%d" % won.index(True) * 1000

    def test_files(self, objects: ObjectStore, tmp_path: Path) -> None:
        """Files of the machine's disk go in and come out whole."""
        content = bytes(range(256)) * 10_000
        (tmp_path / "here").write_bytes(content)
        objects.put_file(KEY, tmp_path / "here")
        assert self.stored(KEY) == content
        (tmp_path / "there").write_bytes(b"something else")
        objects.get_file(KEY, tmp_path / "there")
        assert (tmp_path / "there").read_bytes() == content
        assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"here", "there"}

    def test_files_that_are_not_there(self, objects: ObjectStore, tmp_path: Path) -> None:
        """A file that cannot be read leaves nothing behind, on either side."""
        with pytest.raises(ObjectError, match="nowhere"):
            objects.put_file(KEY, tmp_path / "nowhere")
        with pytest.raises(ObjectMissing):
            objects.get_file(KEY, tmp_path / "there")
        assert list(objects.list()) == []
        assert not (tmp_path / "there").exists()

    def test_missing(self, objects: ObjectStore) -> None:
        """What is not there is said to be missing."""
        with pytest.raises(ObjectMissing, match=r"0_1-0\.run"):
            objects.get(KEY)
        with pytest.raises(ObjectMissing):
            objects.measure(KEY)
        assert objects.head(KEY) is None
        assert objects.head("payments") is None
        assert list(objects.list()) == []
        objects.delete(KEY)

    def test_a_folder_is_no_file(self, objects: ObjectStore) -> None:
        """The beginning of a key is not a file."""
        objects.put(KEY, b"rows")
        assert objects.head("payments/files") is None
        assert [info.key for info in objects.list()] == [KEY]

    def test_head(self, objects: ObjectStore) -> None:
        """A file's size and age are known without reading it."""
        objects.put(KEY, b"rows")
        info = objects.head(KEY)
        assert info is not None
        assert (info.key, info.bytes) == (KEY, 4)
        assert abs(info.modified_at - datetime.now(UTC)) < timedelta(minutes=10)
        assert list(objects.list()) == [info]

    def test_measures(self, objects: ObjectStore) -> None:
        """A file's description fits its content."""
        content = bytes(range(256)) * 10_000
        assert objects.store(KEY, content) == describe(KEY, content)
        assert objects.measure(KEY) == describe(KEY, content)

    def test_delete(self, objects: ObjectStore) -> None:
        """A removed file is gone, and only it."""
        objects.put(KEY, b"rows")
        objects.put(f"{KEY}2", b"rows")
        objects.delete(KEY)
        assert self.stored(KEY) is None
        assert [info.key for info in objects.list()] == [f"{KEY}2"]

    def test_write_after_the_last_delete(self, objects: ObjectStore) -> None:
        """A place that became empty can be written again, by whoever wrote it before."""
        other = self.open()
        for _ in range(3):
            objects.put(KEY, b"rows")
            other.delete(KEY)
        objects.put(KEY, b"more")
        assert self.stored(KEY) == b"more"

    def test_listing(self, objects: ObjectStore) -> None:
        """Files are listed in the order of their keys, by any beginning of them."""
        keys = ["a", "b/a", "b/a.b", "b/a-b/c", "b/a/b", "b/ab", "b.c", "bc/d", "b-/e", "é/ü"]
        for number, key in enumerate(keys):
            if key not in ("b/a",):  # a folder there, too
                objects.put(key, b"." * number)
        written = [key for key in keys if key != "b/a"]
        for prefix in ("", "b", "b/", "b/a", "b/a/", "b/a-b/c", "bc", "é", "x", "b/x/y", "a/"):
            expected = sorted(key for key in written if key.startswith(prefix))
            assert [info.key for info in objects.list(prefix)] == expected

    def test_a_listing_outlives_its_files(self, objects: ObjectStore) -> None:
        """Files that are removed while they are listed are no error."""
        for number in range(5):
            objects.put(f"folder-{number}/file", b"")
        listed = []
        for info in objects.list():
            listed.append(info.key)
            for number in range(5):
                objects.delete(f"folder-{number}/file")
        assert listed[0] == "folder-0/file"
        assert list(objects.list()) == []

    @pytest.mark.parametrize(
        "key",
        ["", "/", "/a", "a//b", "a/", "..", "../a", "a/../b", "./a", "a/.b", "a\0b", "\ud800"],
    )
    def test_keys_that_are_none(self, objects: ObjectStore, tmp_path: Path, key: str) -> None:
        """A key that leads elsewhere, or that an unfinished file might have, is refused."""
        (tmp_path / "file").write_bytes(b"rows")
        for use in (
            lambda: objects.put(key, b"rows"),
            lambda: objects.put_if_absent(key, b"rows"),
            lambda: objects.put_file(key, tmp_path / "file"),
            lambda: objects.get(key),
            lambda: objects.get_file(key, tmp_path / "copy"),
            lambda: objects.head(key),
            lambda: objects.delete(key),
        ):
            with pytest.raises(ObjectError, match="is not a key"):
                use()
        assert list(objects.list()) == []
