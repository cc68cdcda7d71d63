"""Hashes or a stream in Valkey or Redis, each batch applied at once.

    order:17                                     a hash per row, named by the pattern; a null
                                                 removes its field
    events                                       or one stream, an entry per row, with two more
                                                 fields: _epoch, and _sink = <pipeline>/<sink>
    holdfast:<pipeline>:<sink>                   the last token
    holdfast:<pipeline>:<sink>:staged:<random>   the rows of a batch on their way, as JSON

Rows are staged in a list, a thousand at a time, so that neither side buffers the batch; then one
script looks at the token and at the type of every key, and only then writes the rows, the token
and removes the list. Nothing else runs on the server meanwhile: no reader sees half a batch.

Valkey does not take back what a script wrote before it failed. The script can fail only before
its first write: on a key of another type, on memory that is full, on a replica, on a list that is
not complete. What remains are permissions by key pattern (ACL): a user who may not write some of
the keys can leave part of a batch in the hashes, without its token. As hashes are written by key,
trying again writes the same.

The server does nothing else while it applies a batch: about 10,000 rows in 0.1 s. Past
`busy-reply-threshold` (5 s) other clients are answered BUSY, so keep a batch below some 200,000
rows. All keys must be on one server: a cluster is refused. A batch is as durable as the server
makes it: with `appendfsync everysec` a crash of the machine can lose the last second, rows and
token alike.
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.config.sinks import ValkeySink as ValkeySinkConfig
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model import Guarantee, Token
from holdfast.spark.sinks.collecting import chunks, fetch, field_as_text
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink
from holdfast.spark.sinks.refusals import repeated, rolled_back
from holdfast.spark.sinks.valkey_errors import explained, place
from holdfast.spark.sinks.valkey_scripts import APPLY, SET_TOKEN

if TYPE_CHECKING:
    from valkey import Valkey

_CHUNK_ROWS = 1000
_STAGED_SECONDS = 3600
"""How long a batch that was never applied lies around."""
_COLUMN = re.compile(r"\{([^{}]+)\}")
_EPOCH, _SINK = "_epoch", "_sink"


class ValkeySink(Sink):
    """Writes rows as hashes, by key, or as the entries of a stream."""

    def __init__(self, config: ValkeySinkConfig, *, pipeline: str, spark: SparkSession) -> None:
        del spark
        super().__init__(config.name)
        self._config = config
        self._pipeline = pipeline
        self._token_key = f"holdfast:{pipeline}:{config.name}"
        self._client: Valkey | None = None
        self._key_columns: tuple[str, ...] = ()
        if config.mode == "hash":
            self._key_columns = tuple(name for _, name in self._pattern() if name is not None)

    @property
    def guarantee(self) -> Guarantee:
        return "exactly_once"

    @property
    def description(self) -> str:
        what = "hashes" if self._config.mode == "hash" else "the stream"
        return f"{what} {self._config.key} in Valkey at {place(self._config.url)}"

    @property
    def takes_back(self) -> str:
        if self._config.mode == "hash":
            return "Hashes stay as they are until the epochs that are run again overwrite them."
        return f"Entries of later epochs are deleted from the stream {self._config.key}."

    def check(self) -> None:
        with explained(self.name, self._config.url):
            self._open().get(self._token_key)

    def deliver(self, delivery: Delivery) -> Receipt:
        columns = self._row(delivery.schema)
        with explained(self.name, self._config.url):
            client = self._open()
            # Staging a batch that is refused anyway would be a waste.
            known = client.get(self._token_key)
            if known is None:
                repeated(self.name, delivery.token, None, after=delivery.after)
            if self._stands(delivery.token, known):
                return Receipt(rows=None, repeated=True)
            staged = f"{self._token_key}:staged:{uuid.uuid4().hex}"
            try:
                count = self._stage(client, staged, delivery, columns)
                return self._apply(client, staged, delivery.token, count)
            finally:
                self._forget(client, staged)

    def roll_back(self, to: Token) -> str:
        with explained(self.name, self._config.url):
            client = self._open()
            # The token first: from here on a run of an older generation is refused.
            arguments = [to.generation, to.epoch, to.short]
            answer = self._run(client, SET_TOKEN, [self._token_key], arguments)
            if answer[0] != "taken":
                rolled_back(self.name, to, self._token(answer[1]))
            if self._config.mode == "stream":
                deleted = self._delete_after(client, to.epoch)
                return f"{deleted} entries were deleted from the stream {self._config.key}."
        return self.takes_back

    def close(self) -> None:
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call]
            self._client = None

    def _open(self) -> Valkey:
        if self._client is None:
            try:
                import valkey
            except ImportError as error:
                raise SinkRefused(
                    f"{self.name}: the client for Valkey is not installed.",
                    hint="Install the extra `valkey` of Holdfast, or: pip install valkey",
                ) from error
            try:
                self._client = valkey.Valkey.from_url(
                    self._config.url,
                    decode_responses=True,
                    socket_timeout=30,
                    socket_connect_timeout=10,
                )
            except ValueError as error:
                raise SinkRefused(
                    f"{self.name}: the url does not lead to a Valkey server.",
                    hint='Write it like "valkey://:${PASSWORD}@host:6379/0".',
                ) from error
        return self._client

    def _stage(self, client: Valkey, staged: str, delivery: Delivery, columns: list[Column]) -> int:
        count = 0
        for chunk in chunks(fetch(delivery.frame, columns, sink=self.name), _CHUNK_ROWS):
            texts = [text for (text,) in chunk]
            if any(text.startswith("[null") for text in texts):
                raise SinkRefused(
                    f"{self.name}: a row has no value in one of the columns of its key, "
                    f"{self._config.key}.",
                    hint="Leave such rows out, or give the column a value.",
                )
            with client.pipeline(transaction=False) as pipe:
                pipe.rpush(staged, *texts)
                pipe.expire(staged, _STAGED_SECONDS)
                pipe.execute()  # type: ignore[no-untyped-call]
            count += len(texts)
        return count

    def _apply(self, client: Valkey, staged: str, token: Token, count: int) -> Receipt:
        config = self._config
        answer = self._run(
            client,
            APPLY,
            [self._token_key, staged],
            [
                token.generation,
                token.epoch,
                token.short,
                config.mode,
                config.key,
                count,
                config.max_length or "",
                self._own,
            ],
        )
        known = self._judge(token, answer)
        return Receipt(rows=None if known else count, repeated=known)

    def _forget(self, client: Valkey, staged: str) -> None:
        from valkey.exceptions import ValkeyError

        # A server that cannot be asked now forgets the list by itself when its time is over.
        with suppress(ValkeyError, OSError):
            client.unlink(staged)

    def _run(self, client: Valkey, script: str, keys: list[str], arguments: list[Any]) -> list[str]:
        answer: Any = client.register_script(script)(keys=keys, args=arguments)
        return [str(part) for part in answer]

    def _judge(self, token: Token, answer: list[str]) -> bool:
        """Whether a script did nothing because it was done already; raises what it refused."""
        match answer:
            case ["taken", *_]:
                return False
            case ["lost", *_]:
                raise SinkUnavailable(
                    f"{self.name}: the server lost the staged rows before they were applied.",
                    hint="It may be short of memory and evicting keys.",
                )
            case ["wrong type", key, found]:
                raise SinkRefused(
                    f"{self.name}: {key} is a {found} in Valkey, not a {self._config.mode}.",
                    hint="Delete or rename it there, or choose another `key` for this sink.",
                )
            case [_, last]:
                return self._stands(token, last)
        raise AssertionError(f"a script of Holdfast answered {answer}")

    def _stands(self, token: Token, last: Any) -> bool:
        """Whether `token` is the last one taken; raises if it must not be taken."""
        if last is None:
            return False
        return repeated(self.name, token, self._token(last))

    def _token(self, text: str) -> Token:
        try:
            return Token.parse(f"{self._pipeline}/{text}")
        except ValueError as error:
            raise SinkRefused(
                f"{self.name}: {self._token_key} in Valkey is no token of Holdfast.",
                hint="Something else wrote it. Delete it only if this sink has delivered nothing.",
            ) from error

    def _delete_after(self, client: Valkey, epoch: int) -> int:
        """Delete this sink's entries of later epochs, from the end of the stream backwards."""
        deleted, below = 0, "+"
        while True:
            entries: Any = client.xrevrange(self._config.key, max=below, count=_CHUNK_ROWS)
            own = [(i, fields) for i, fields in entries if fields.get(_SINK) == self._own]
            later = [i for i, fields in own if int(fields[_EPOCH]) > epoch]
            if later:
                deleted += int(client.xdel(self._config.key, *later))  # type: ignore[arg-type]
            # Epochs only grow along the stream: before the first one that stays, all stay.
            if len(later) < len(own) or len(entries) < _CHUNK_ROWS:
                return deleted
            below = f"({entries[-1][0]}"

    @property
    def _own(self) -> str:
        return f"{self._pipeline}/{self.name}"

    def _row(self, schema: StructType) -> list[Column]:
        """One text per row: a JSON list of the key, then names and values."""
        if self._config.mode == "stream":
            reserved = {_EPOCH, _SINK} & set(schema.names)
            if reserved:
                raise SinkRefused(
                    f"{self.name}: the column {reserved.pop()} has the name of a field that "
                    "Holdfast adds to every entry.",
                    hint="Rename it with `select`.",
                )
            key, fields = F.lit(""), list(schema.fields)
        else:
            key = self._key(schema)
            fields = [field for field in schema.fields if field.name not in self._key_columns]
            if not fields:
                raise SinkRefused(
                    f"{self.name}: every column is part of the key {self._config.key}, and "
                    "nothing is left for the hash.",
                    hint="Take a column out of the key, or add one to the batch.",
                )
        pairs = [part for field in fields for part in (F.lit(field.name), field_as_text(field))]
        return [F.to_json(F.array(key, *pairs))]

    def _key(self, schema: StructType) -> Column:
        parts: list[Column] = []
        for text, name in self._pattern():
            parts.append(F.lit(text))
            if name is not None:
                if name not in schema.names:
                    raise SinkRefused(
                        f"{self.name}: the key {self._config.key} needs the column {name}; the "
                        f"batch has {', '.join(schema.names)}.",
                        hint="Correct `key`, or select that column.",
                    )
                parts.append(field_as_text(schema[name]))
        return F.concat(*parts)

    def _pattern(self) -> list[tuple[str, str | None]]:
        """The texts of the key's pattern, each with the column that follows it, if one does."""
        parts: list[str | None] = [*_COLUMN.split(self._config.key), None]
        return [(text or "", name) for text, name in zip(parts[::2], parts[1::2], strict=True)]
