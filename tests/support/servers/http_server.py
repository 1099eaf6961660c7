"""An HTTP server on this machine, answered by a test's own handler."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kafka_ferry.memory_file import memory_file
from kafka_sandbox.logins.secure import Identity


class QuietHandler(BaseHTTPRequestHandler):
    """Reads and answers requests, and logs none."""

    def body(self) -> bytes:
        """The request's."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an answer, which a client that did not wait does not get."""
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        with suppress(OSError):
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def http_server(
    handler: type[BaseHTTPRequestHandler], identity: Identity | None = None
) -> Iterator[str]:
    """Yields the URL of one on a free port, over TLS if it has an ``identity`` to show."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if identity:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with memory_file(identity.key_pem + identity.chain_pem) as both:
            context.load_cert_chain(both)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if identity else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
