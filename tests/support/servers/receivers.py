"""Receivers on this machine that keep what they are sent: over HTTP, over UDP, by mail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as default_policy
from typing import Any

from aiosmtpd.controller import Controller

from kafka_sandbox.broker import free_port
from tests.support.servers.http_server import QuietHandler, http_server


@dataclass
class HttpReceiver:
    """What came over HTTP.

    Attributes:
        url: where it listens.
        status: what it answers with.
        requests: method, path, headers and body of each request, in order.
    """

    url: str = ""
    status: int = 200
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def http_receiver(status: int = 200) -> Iterator[HttpReceiver]:
    """An HTTP server on a free port."""
    receiver = HttpReceiver(status=status)

    class Handler(QuietHandler):
        def _take(self) -> None:
            receiver.requests.append((self.command, self.path, dict(self.headers), self.body()))
            self.answer(receiver.status)

        do_PUT = do_POST = do_DELETE = _take

    with http_server(Handler) as receiver.url:
        yield receiver


@dataclass
class UdpReceiver:
    """What came over UDP.

    Attributes:
        port: where it listens.
        lines: the packets' lines, in order.
    """

    port: int = 0
    lines: list[str] = field(default_factory=list)

    def gauges(self, prefix: str) -> dict[str, float]:
        """The last value of each StatsD gauge whose name begins with ``prefix``."""
        found = {}
        for line in self.lines:
            name, _, rest = line.partition(":")
            value, _, kind = rest.partition("|")
            if name.startswith(prefix) and kind == "g":
                found[name.removeprefix(prefix)] = float(value)
        return found


@contextmanager
def udp_receiver() -> Iterator[UdpReceiver]:
    """A UDP socket on a free port, with room for bursts; all that came is there when it is left."""
    receiver = UdpReceiver()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.2)
        receiver.port = sock.getsockname()[1]
        stopped = threading.Event()

        def listen() -> None:
            while True:
                try:
                    receiver.lines.extend(sock.recv(65_536).decode().splitlines())
                except TimeoutError:
                    if stopped.is_set():
                        return

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            stopped.set()
            thread.join()


@dataclass
class MailReceiver:
    """What came by SMTP.

    Attributes:
        port: where it listens.
        mails: sender, receivers and the whole message of each mail, in order.
    """

    port: int = 0
    mails: list[tuple[str, list[str], EmailMessage]] = field(default_factory=list)


@contextmanager
def mail_receiver() -> Iterator[MailReceiver]:
    """An SMTP server on a free port, which takes every mail."""
    receiver = MailReceiver()

    class Handler:
        async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
            message = message_from_bytes(envelope.content, policy=default_policy)
            receiver.mails.append((envelope.mail_from, envelope.rcpt_tos, message))
            return "250 Taken"

    receiver.port = free_port()
    controller = Controller(Handler(), hostname="127.0.0.1", port=receiver.port)
    controller.start()
    try:
        yield receiver
    finally:
        controller.stop()
