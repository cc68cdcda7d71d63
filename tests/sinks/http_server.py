"""An HTTP server of our own that remembers what it was sent and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    rows: list[dict[str, Any]]
    connection: int
    """The client's port: the same one for requests over one connection."""


@dataclass(slots=True)
class HttpServer:
    """A running server."""

    port: int = 0
    requests: list[Request] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    """Status, headers and body of the next answers; then, and for None, 200."""
    honours_keys: bool = True
    """It keeps rows once per Idempotency-Key."""
    hangs_up: bool = False
    """It closes every connection after an answer, without saying so."""
    kept: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where a sink finds it."""
        return f"http://127.0.0.1:{self.port}/events"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every row it has taken."""
        return [row for rows in self.kept.values() for row in rows]

    def take(self, request: Request) -> tuple[int, dict[str, str], str]:
        """Decide over a request."""
        self.requests.append(request)
        if self.answers:
            return self.answers.pop(0)
        key = request.headers["Idempotency-Key"]
        if not self.honours_keys:
            key = f"{key} at {len(self.requests)}"
        self.kept.setdefault(key, request.rows)
        return 200, {}, "{}"


@contextmanager
def running_http() -> Iterator[HttpServer]:
    """Serve on a free port of the loopback interface."""
    state = HttpServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Request(
                self.path, dict(self.headers), json.loads(body), self.client_address[1]
            )
            status, headers, text = state.take(request)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())
            self.close_connection = state.hangs_up

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
