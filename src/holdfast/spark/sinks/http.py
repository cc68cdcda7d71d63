"""An HTTP endpoint: rows are posted as JSON arrays.

    POST /events HTTP/1.1
    Content-Type: application/json
    Idempotency-Key: <pipeline>/<generation>/<epoch>/<batch>/<sink>/<number of the request, from 0>
    Holdfast-Token: <pipeline>/<generation>/<epoch>/<batch>

    [{"id": 1, "name": "tea"}, ...]                 up to `batch_rows` rows

Generation and epoch give the order; `batch`, a text of its own for every batch, keeps other rows
from being taken for a replay after the ledger was restored from an older copy.

With `idempotent` the server promises to do nothing for a key it has answered with 2xx, and rows
are sorted by their JSON before they are cut into requests: the same batch makes the same requests
under the same keys, however Spark spread it over partitions this time. That is what makes it
exactly once. Without it rows are sent in the order in which they come, and a batch that comes
again is sent again.

A batch of several requests is not taken at once: a server that fails in the middle has the first
ones. An empty batch sends nothing.
"""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
from urllib.parse import quote, unquote, urlsplit

from pyspark.sql import SparkSession

from holdfast._version import __version__
from holdfast.config.sinks import HttpSink as HttpSinkConfig
from holdfast.errors import SinkError, SinkRefused, SinkUnavailable
from holdfast.model import Guarantee, Token
from holdfast.spark.sinks.collecting import chunks, fetch, row_as_json
from holdfast.spark.sinks.contract import Delivery, Receipt, Sink
from holdfast.spark.sinks.refusals import repeated

_PASSING = (408, 425, 429)
_OWN_HEADERS = ("idempotency-key", "holdfast-token", "content-length", "host")
_ALLOWED_IN_TARGET = "/?%:@!$&'()*+,;=~-._[]"
_SHOWN_CHARACTERS = 200
_SHORTEST_SECRET = 4
"""Below that, a value is hidden only by not being shown: `1` stands everywhere."""


class HttpSink(Sink):
    """Posts rows to one URL over a connection that is kept open."""

    def __init__(self, config: HttpSinkConfig, *, pipeline: str, spark: SparkSession) -> None:
        del pipeline, spark
        super().__init__(config.name)
        self._config = config
        parts = urlsplit(config.url)
        try:
            port = parts.port
        except ValueError as error:
            raise SinkRefused(
                f"{self.name}: the port in the sink's url is not a number.",
                hint='Write the url like "https://host:8443/events".',
            ) from error
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", port or (443 if self._secure else 80)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._target = quote(target, safe=_ALLOWED_IN_TARGET)
        shown_port = f":{port}" if port else ""
        # Not the path: that of a webhook is a secret.
        self._place = f"{parts.scheme}://{self._host}{shown_port}"
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"holdfast/{__version__}",
        }
        self._secrets = [*config.headers.values(), *re.split("[=&]", parts.query)]
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            encoded = base64.b64encode(login.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
            self._secrets += [encoded, unquote(parts.password or "")]
        # The names of headers are the same in capitals and small letters.
        given = {name.lower() for name in config.headers}
        self._headers = {k: v for k, v in self._headers.items() if k.lower() not in given}
        self._headers |= {k: v for k, v in config.headers.items() if k.lower() not in _OWN_HEADERS}
        self._refuse_bad_headers()
        self._connection: http.client.HTTPConnection | None = None
        self._last: Token | None = None

    @property
    def guarantee(self) -> Guarantee:
        return "exactly_once" if self._config.idempotent else "at_least_once"

    @property
    def description(self) -> str:
        return f"POST {self._place}, {self._config.batch_rows} rows at a time"

    @property
    def takes_back(self) -> str:
        return (
            "What was posted stays with the server, and the epochs that are run again are posted "
            "again under a new token."
        )

    def check(self) -> None:
        try:
            self._connect()
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(error) from error

    def deliver(self, delivery: Delivery) -> Receipt:
        token = delivery.token
        # Whether it has taken this one is the server's to know: it is sent again.
        repeated(self.name, token, self._last)
        frame = delivery.frame.select(row_as_json(delivery.schema).alias("row"))
        if self._config.idempotent:
            frame = frame.orderBy("row")
        rows = fetch(frame, [frame["row"]], sink=self.name)
        count = 0
        for number, chunk in enumerate(chunks(rows, self._config.batch_rows)):
            body = f"[{','.join(row for (row,) in chunk)}]".encode()
            self._post(body, token, number)
            count += len(chunk)
        self._last = token
        return Receipt(rows=count)

    def roll_back(self, to: Token) -> str:
        self._last = to
        return self.takes_back

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, token: Token, number: int) -> None:
        headers = {
            **self._headers,
            "Idempotency-Key": f"{token}/{self.name}/{number}",
            "Holdfast-Token": str(token),
        }
        kept_open = self._connection is not None
        try:
            try:
                response, answer = self._exchange(body, headers)
            except (ConnectionError, http.client.BadStatusLine):
                # Servers close connections that rest; one that was just opened is another matter.
                self.close()
                if not kept_open:
                    raise
                response, answer = self._exchange(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._failed(error) from error
        if not 200 <= response.status < 300:
            self.close()
            raise self._answered(response, answer, number)

    def _exchange(
        self, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._connect()
        connection.request("POST", self._target, body, headers)
        response = connection.getresponse()
        return response, response.read()

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            timeout = self._config.timeout.total_seconds()
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = kind(self._host, self._port, timeout=timeout)
            connection.connect()
            self._connection = connection
        return self._connection

    def _failed(self, error: Exception) -> SinkError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return SinkRefused(
                f"{self.name}: the certificate of {self._place} is not to be trusted: "
                f"{error.verify_message}",
                hint="Correct it there, or name the authority in SSL_CERT_FILE.",
            )
        told = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        if isinstance(error, socket.gaierror):
            told = f"the name {self._host} is not known"
        return SinkUnavailable(
            f"{self.name}: {self._place} cannot be reached: {told or type(error).__name__}",
            hint="Check that the server runs and that the sink's url is right.",
        )

    def _answered(
        self, response: http.client.HTTPResponse, answer: bytes, number: int
    ) -> SinkError:
        status = response.status
        told = self._without_secrets(" ".join(answer.decode(errors="replace").split()))
        said = f": {told[:_SHOWN_CHARACTERS]}" if told else ""
        message = f"{self.name}: {self._place} answered {status} {_meaning(status)} to request "
        message += f"{number} of the batch{said}"
        if status in _PASSING or status >= 500:
            later = response.getheader("Retry-After")
            asked = f" The server asks to wait: Retry-After: {later[:40]}." if later else ""
            return SinkUnavailable(message, hint=f"It is tried again.{asked}")
        if 300 <= status < 400:
            hint = "It points somewhere else: give the sink the url it points to."
        elif status in (401, 403):
            hint = "Check the login in the sink's url or headers."
        elif status == 413:
            hint = "Lower batch_rows."
        else:
            hint = "The server will not take these rows before they, or it, are changed."
        return SinkRefused(message, hint=hint)

    def _without_secrets(self, text: str) -> str:
        """A server's answer without what it repeats of our credentials."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            for word in (secret, *secret.split()):
                if len(word) >= _SHORTEST_SECRET:
                    text = text.replace(word, "***")
        return text

    def _refuse_bad_headers(self) -> None:
        for name, value in self._headers.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not (
                value.isprintable() and value.isascii()
            ):
                raise SinkRefused(
                    f"{self.name}: {name!r} cannot be sent as a header.",
                    hint="Names are letters, digits and dashes; values one line of ASCII.",
                )


def _meaning(status: int) -> str:
    """What a status means; not the server's own words, which may repeat what it was sent."""
    return http.client.responses.get(status, "")
