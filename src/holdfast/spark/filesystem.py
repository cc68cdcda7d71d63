"""The few file operations a target needs, on a local disk or through Hadoop.

Spark writes the rows. What it cannot do is put a finished directory in place so that a reader
sees all of it or nothing: that takes a rename, and for a whole table an exchange of two
directories. On Linux the exchange is one system call. Where there is none, it is two renames,
and `docs/formats/target.md` says what a reader sees between them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

ASIDE = ".aside"
"""What an exchange in two renames adds to the name of the directory that makes way."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class Files(ABC):
    """File operations on one file system; paths are strings as Spark takes them."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""

    @abstractmethod
    def names(self, directory: str) -> list[str]:
        """List what is in a directory, sorted; nothing if it is not there."""

    @abstractmethod
    def rename(self, source: str, destination: str) -> None:
        """Move a file or directory to a place where there is none; parents are made."""

    @abstractmethod
    def replace(self, source: str, destination: str) -> None:
        """Move a file to where there may be one already, in one step where the system can."""

    @abstractmethod
    def exchange(self, one: str, other: str) -> None:
        """Swap two directories, in one step where the system can."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file or a whole directory; nothing happens if it is not there."""

    @abstractmethod
    def read_text(self, path: str) -> str | None:
        """Return a small file's text, or `None` if it is not there."""

    @abstractmethod
    def write_text(self, path: str, text: str) -> None:
        """Write a small file so that it is there whole or not at all."""

    @abstractmethod
    def link_tree(self, source: str, destination: str) -> None:
        """Make a second directory with the same immutable files, by links where possible."""

    @abstractmethod
    def size(self, directory: str) -> int:
        """How many bytes the files below a directory have."""

    @abstractmethod
    def make_durable(self, directory: str) -> None:
        """Return when everything below a directory would survive a power failure."""


class LocalFiles(Files):
    """Files on a disk this process can see."""

    def exists(self, path: str) -> bool:
        return local_path(path).exists()

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(local_path(directory)))  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            return []

    def rename(self, source: str, destination: str) -> None:
        place = local_path(destination)
        place.parent.mkdir(parents=True, exist_ok=True)
        local_path(source).rename(place)
        _sync(place.parent)

    def replace(self, source: str, destination: str) -> None:
        place = local_path(destination)
        local_path(source).replace(place)
        _sync(place.parent)

    def exchange(self, one: str, other: str) -> None:
        first, second = local_path(one), local_path(other)
        if not _exchange_in_one_step(first, second):
            aside = first.with_name(first.name + ASIDE)
            second.rename(aside)
            first.rename(second)
            aside.rename(first)
        _sync(first.parent)
        _sync(second.parent)

    def delete(self, path: str) -> None:
        place = local_path(path)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def read_text(self, path: str) -> str | None:
        try:
            return local_path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write_text(self, path: str, text: str) -> None:
        place = local_path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.tmp")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(place)
        _sync(place.parent)

    def link_tree(self, source: str, destination: str) -> None:
        shutil.copytree(local_path(source), local_path(destination), copy_function=_link_or_copy)

    def size(self, directory: str) -> int:
        return sum(p.stat().st_size for p in _walk(local_path(directory)) if not p.is_dir())

    def make_durable(self, directory: str) -> None:
        for place in _walk(local_path(directory)):
            _sync(place)


class HadoopFiles(Files):
    """Files on any file system Spark's Hadoop client knows: HDFS, an object store."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._file_util = jvm.org.apache.hadoop.fs.FileUtil
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
        self._fs = self._path(path).getFileSystem(self._conf)
        self._io_utils = jvm.org.apache.commons.io.IOUtils

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def names(self, directory: str) -> list[str]:
        if not self.exists(directory):
            return []
        return sorted(s.getPath().getName() for s in self._fs.listStatus(self._path(directory)))

    def rename(self, source: str, destination: str) -> None:
        place = self._path(destination)
        self._fs.mkdirs(place.getParent())
        if not self._fs.rename(self._path(source), place):
            raise OSError(errno.EIO, f"cannot rename {source}", destination)

    def replace(self, source: str, destination: str) -> None:
        self.delete(destination)
        self.rename(source, destination)

    def exchange(self, one: str, other: str) -> None:
        aside = one.rstrip("/") + ASIDE
        self.rename(other, aside)
        self.rename(one, other)
        self.rename(aside, one)

    def delete(self, path: str) -> None:
        self._fs.delete(self._path(path), True)

    def read_text(self, path: str) -> str | None:
        if not self.exists(path):
            return None
        stream = self._fs.open(self._path(path))
        try:
            return str(self._io_utils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        place = self._path(path)
        temporary = self._path(place.getParent(), f".{place.getName()}.tmp")
        stream = self._fs.create(temporary, True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hflush()
        finally:
            stream.close()
        self._fs.delete(place, False)
        if not self._fs.rename(temporary, place):
            raise OSError(errno.EIO, "cannot write", path)

    def link_tree(self, source: str, destination: str) -> None:
        self._file_util.copy(
            self._fs, self._path(source), self._fs, self._path(destination), False, self._conf
        )

    def size(self, directory: str) -> int:
        return int(self._fs.getContentSummary(self._path(directory)).getLength())

    def make_durable(self, directory: str) -> None:
        """Nothing to do: such a file system keeps a file once its writer has closed it."""


def files_for(spark: SparkSession, path: str) -> Files:
    """Choose how to handle the files below a path."""
    return LocalFiles() if is_local(spark, path) else HadoopFiles(spark, path)


def is_local(spark: SparkSession, path: str) -> bool:
    """Whether Spark takes a path for one on a disk this process can see."""
    scheme = urlparse(path).scheme
    if not scheme:
        conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
        scheme = urlparse(str(conf.get("fs.defaultFS", "file:///"))).scheme
    return scheme == "file"


def is_pattern(path: str) -> bool:
    """Whether Spark would read other files than the path names, as it does with `a[1]`."""
    return any(character in path for character in "*?[]{}\\")


def local_path(path: str) -> Path:
    """Turn `file:///a/b` or `/a/b` into a path."""
    parsed = urlparse(path)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else Path(path)


def join(directory: str, *names: str) -> str:
    """Put names below a directory, whatever its scheme."""
    return "/".join([directory.rstrip("/"), *names])


def _link_or_copy(source: str, destination: str) -> None:
    try:
        os.link(source, destination)
    except OSError:
        shutil.copy2(source, destination)


def _walk(top: Path) -> Iterator[Path]:
    for directory, _, files in os.walk(top):
        yield from (Path(directory) / name for name in files)
        yield Path(directory)


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange_in_one_step(one: Path, other: Path) -> bool:
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    done = rename(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)
    )
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
