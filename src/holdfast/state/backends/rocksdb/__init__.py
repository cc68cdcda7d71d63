"""The `rocksdb` backend: a RocksDB for each operator partition.

All tables share one key space, told apart by a number in front of the key. Column families
would give every table memtables and files of its own: more files in every checkpoint, and a
checkpoint would still have to flush them all.

    key      2 bytes   number of the table, big-endian
             8 bytes   the code, big-endian, its sign bit flipped: bytes sort as codes do
             ...       the key columns, as in `rowcodec.py`
    value    4 bytes   partition hash, little-endian
             8 bytes   only in stamped tables: the stamp, little-endian
             ...       the value columns, as in `rowcodec.py`

On disk, in the directory of the operator:

    work-<attempt>-<partition>/           the database as it runs; gone when the backend is closed
    work-<attempt>-<partition>-adopt/     another split's snapshot while its keys are taken over
    epoch-<epoch>_<attempt>-<partition>/  what a checkpoint added: CURRENT, MANIFEST-*, new *.sst

A checkpoint flushes the memtables and hard-links the files, whatever the size of the state. An
SST file never changes, so one that an older checkpoint has already goes on under the name it
has there. What a crash leaves behind is directories that no snapshot names.
"""

from holdfast.state.backends.rocksdb.backend import RocksDBBackend
from holdfast.state.backends.rocksdb.options import RocksDBOptions

__all__ = ["RocksDBBackend", "RocksDBOptions"]
