"""One connection to one broker, optimized for throughput.

Messages and TLS settings are kafka-python's; the socket is read and written
here, blocking and in large pieces, because its own loop reads 4 KiB at a time and copies each
response three times. Requests may be pipelined: brokers answer them in order. Where a broker ends
sessions (KIP-368), the connection logs in again before that.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import random
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.metadata import ApiVersionsRequest

from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.printable import excerpt
from kafka_ferry.retry import at_most, silence_s
from kafka_ferry.wire.connections.responses import decode_response, response_class_of
from kafka_ferry.wire.connections.sasl import log_in
from kafka_ferry.wire.connections.sockets import open_socket
from kafka_ferry.wire.connections.tls import UNREACHED, UNRESOLVED, secure, tls_fault
from kafka_ferry.wire.connections.versions import version_to_send

_CORRELATION_ID: Final = 4
_UNSUPPORTED_VERSION: Final = 35
_MAX_RESPONSE: Final = 256 * 1024 * 1024
# Below it malloc reuses the same memory, which is faster than new pages.
_MAPPED_FROM: Final = 32 * 1024 * 1024
# Small quotas make brokers ask for minutes of silence, never for the 24 days that would fit.
_LONGEST_QUIET_S: Final = 600.0
# When to log in again, as shares of a session: ExpiryBasedReauthentication in Java's SaslClientAuthenticator.
_RENEW_AFTER: Final = (0.85, 0.95)
# A busy broker may take so long, however short the time is for which calls are tried again.
_LEAST_TIMEOUT_S: Final = 10.0
# What a message may take longer for its size, in bytes a second: few lines between data centres are slower.
_SLOWEST: Final = 64 * 1024
SILENCE_S: Final = 2.0
"""After so long without a byte, ``on_silence`` is called."""
_AUTHENTICATED: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


class Connection:
    """A blocking connection to one broker.

    Attributes:
        closed: whether it can no longer be used.
        fetches: what waits for answers to fetches, in their order (``wire.partitions.fetch``).
        peer: the broker's host and port.
        is_before_2_4: whether the broker is of a Kafka release before 2.4.
        round_trip_s: the least time that an answer of a ``call`` has taken, in seconds.

    Args:
        host: the broker's host name or address.
        port: its port.
        settings: kafka-python's configuration names (``security_protocol``, ``sasl_mechanism``, ...).
        cluster: the cluster's alias, for messages.
        on_silence: called whenever the broker has sent nothing for ``SILENCE_S`` seconds; an error
            that it raises closes the connection.
        is_hurried: whether to give up after as long where the connection does not come about, TLS included.

    Raises:
        ClusterUnreachable: if the broker cannot be reached, closes the connection or does not
            answer in time; the outcome of requests in flight is then unknown.
        AccessDenied: if the login or the certificate is refused.
    """

    def __init__(
        self,
        host: str,
        port: int,
        settings: Mapping[str, Any],
        cluster: str = "",
        on_silence: Callable[[], None] | None = None,
        *,
        is_hurried: bool = False,
    ) -> None:
        # A broker names the others, and a name may be as long as an answer.
        address = excerpt(f"{host}:{port}")
        self.address = f"{cluster} ({address})" if cluster else address
        self.peer = host, port
        self._settings = dict(settings)
        self._timeout = float(settings.get("request_timeout_ms", 30_000)) / 1000
        self._on_silence = on_silence
        self._waited_s = 0.0
        self._slice = min(SILENCE_S, self._timeout)
        self._client_id = str(settings.get("client_id", "kafka-ferry"))
        self._correlation_id = 0
        self._in_flight: deque[tuple[int, Any, int, int]] = deque()
        self._early: deque[memoryview] = deque()
        self.fetches: deque[Any] = deque()
        self._renew_at = math.inf
        self._versions: dict[int, tuple[int, int]] = {}
        self.closed = False
        self.is_before_2_4 = False
        self.round_trip_s = math.inf
        self._quiet_until = 0.0
        self._used_at = time.monotonic()
        self._socket = self._connect(host, port, is_hurried=is_hurried)
        try:
            self._agree_versions()
            if self._settings.get("security_protocol") in _AUTHENTICATED:
                self._authenticate()
        except BaseException:
            self.close()
            raise

    @property
    def is_idle(self) -> bool:
        """Whether it is open and no answer is pending."""
        return not (self.closed or self._in_flight)

    @property
    def is_usable(self) -> bool:
        """Whether it is idle, and the broker has neither closed it nor sent anything unasked."""
        return self.is_idle and not self._is_readable

    @property
    def has_answer(self) -> bool:
        """Whether the broker has begun to answer, as far as that can be seen without waiting, or has gone."""
        return bool(self._early) or self._is_readable

    @property
    def _is_readable(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def fileno(self) -> int:
        """The socket's file descriptor, to wait for answers; -1 once it is closed."""
        return self._socket.fileno()

    @property
    def timeout(self) -> float:
        """After how many seconds without an answer the broker is given up: no more than calls are tried again for."""
        return min(self._timeout, max(at_most(self._timeout), _LEAST_TIMEOUT_S))

    def call(self, request: Any, *, newest: int | None = None) -> Any:
        """Send ``request`` and wait for its response; nothing else may be in flight."""
        began = time.monotonic()
        self.send(request, newest=newest)
        response = self.receive()
        self.round_trip_s = min(self.round_trip_s, time.monotonic() - began)
        return response

    def offers(self, request: Any, *, version: int = 0) -> bool:
        """Whether the broker supports this kind of request, in this version or a newer one."""
        _, newest = self._versions.get(request.API_KEY, (0, -1))
        return newest >= version

    def send(self, request: Any, *, newest: int | None = None) -> int:
        """Send ``request`` in the newest version that both sides support, without waiting for its response.

        Args:
            request: the message.
            newest: the newest version that can express it, None for any.

        Returns:
            How many bytes it has.
        """
        if request.API_VERSION is None:
            version = version_to_send(request, self._versions, self.address)
            request.API_VERSION = version if newest is None else min(version, newest)
        self._stay_authenticated()
        self._keep_quiet()
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request.with_header(correlation_id=self._correlation_id, client_id=self._client_id)
        frame = request.encode(header=True, framed=True)
        # Flexible versions (KIP-482) have tagged fields after the correlation id, ApiVersions never.
        flexible = (
            request.flexible_version_q(request.API_VERSION) and request.name != "ApiVersionsRequest"
        )
        body_at = _CORRELATION_ID + flexible
        response_class = response_class_of(request.__class__)
        expected = self._correlation_id, response_class, request.API_VERSION, body_at
        self._in_flight.append(expected)
        self._used_at = time.monotonic()
        with self._as_unreachable():
            self._send_all(frame)
        return len(frame)

    def _keep_quiet(self) -> None:
        """Wait for as long as the broker has asked for, which enforces a quota."""
        quiet_s = self._quiet_until - time.monotonic()
        if quiet_s <= 0:
            return
        if quiet_s > silence_s(quiet_s):
            raise ClusterUnreachable(
                f"{self.address} asks for {quiet_s:,.0f} s without a request, as for a client above its quota.",
                advice="Raise the quota of the flow's principal there, or wait longer (--timeout, admin.timeout.ms).",
            )
        time.sleep(quiet_s)

    def receive(self) -> Any:
        """Wait for the response to the oldest request in flight, and decode it."""
        expected, response_class, version, body_at = self._in_flight.popleft()
        frame = self._early.popleft() if self._early else self._frame()
        try:
            got = int.from_bytes(frame[:4], "big", signed=True)
            if got != expected:
                raise ValueError(f"an answer to request {got} instead of {expected}")
            if body_at > _CORRELATION_ID and frame[_CORRELATION_ID]:
                raise ValueError("tagged fields in the header, of which Kafka has defined none")
            response = decode_response(response_class, version, frame[body_at:])
        except Exception as error:  # the decoder raises struct, index and value errors
            self.close()
            # The error's own form may hold all that was sent.
            why = excerpt(f"{type(error).__name__}: {error}")
            raise ClusterUnreachable(
                f"{self.address} sent a response that cannot be read: {why}."
            ) from None

        self._used_at = time.monotonic()
        # A broker that enforces a quota answers at once and expects its client to wait (KIP-219).
        quiet = getattr(response, "throttle_time_ms", 0) / 1000
        self._quiet_until = time.monotonic() + min(quiet, _LONGEST_QUIET_S)
        return response

    @property
    def idle_s(self) -> float:
        """Seconds since the last request or answer; 0 while an answer is pending."""
        return 0.0 if self._in_flight else time.monotonic() - self._used_at

    def close(self) -> None:
        """Close the socket; safe to call twice and from another thread."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _connect(self, host: str, port: int, *, is_hurried: bool) -> socket.socket:
        self._waited_s = self._slice if is_hurried else self._timeout
        with self._as_unreachable():
            limit = self._waited_s
            plain = open_socket(host, port, self._settings, limit, is_hurried=is_hurried)
            made = secure(plain, host, self._settings)
            made.settimeout(self._slice)
            return made

    def _agree_versions(self) -> None:
        response = self.call(
            ApiVersionsRequest(
                version=3, client_software_name="kafka-ferry", client_software_version="0.1"
            )
        )
        if response.error_code == _UNSUPPORTED_VERSION:
            # Brokers before 2.4 answer in version 0, whatever the request's version (KIP-511).
            self.is_before_2_4 = True
            response = self.call(ApiVersionsRequest(version=0))
        if response.error_code:
            raise FerryError(f"{self.address} does not say which requests it supports.")
        self._versions = {
            entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys
        }

    def _stay_authenticated(self) -> None:
        """Log in again if the session soon ends: a broker closes the connection at the first request after that."""
        if time.monotonic() < self._renew_at:
            return
        # Connections that always have requests in flight get no other pause.
        while len(self._early) < len(self._in_flight):
            self._early.append(self._frame())
        waiting = self._in_flight, self._early
        self._in_flight, self._early, self._renew_at = deque(), deque(), math.inf
        try:
            self._authenticate()
        except BaseException:
            self.close()
            raise
        self._in_flight, self._early = waiting

    def _authenticate(self) -> None:
        lifetime_ms = log_in(self.call, self.address, self.peer[0], self._settings)
        if lifetime_ms:
            # Spreads the logins of all tasks' connections.
            share = random.uniform(*_RENEW_AFTER)
            self._renew_at = time.monotonic() + lifetime_ms / 1000 * share

    def _frame(self) -> memoryview:
        """The next response, undecoded."""
        with self._as_unreachable():
            deadline = self._deadline(4)
            size = int.from_bytes(self._read(4, deadline), "big", signed=True)
            if not 4 <= size <= _MAX_RESPONSE:
                raise kafka_errors.InvalidReceiveError(f"a response of {size} bytes")
            return self._read(size, deadline + size / _SLOWEST)

    def _deadline(self, size: int) -> float:
        """Until when the next ``size`` bytes must have come or gone, however many pieces they come in."""
        return time.monotonic() + self.timeout + size / _SLOWEST

    def _read(self, size: int, deadline: float) -> memoryview:
        # The announced size is only a claim, but pages that are never written cost nothing.
        buffer = memoryview(
            bytearray(size) if size < _MAPPED_FROM else mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
        )
        at = 0
        while at < size:
            read = self._wait(partial(self._socket.recv_into, buffer[at:]), deadline)
            if not read:
                raise ConnectionResetError("closed by the broker")
            at += read
        return buffer

    def _send_all(self, frame: bytes) -> None:
        left, deadline = memoryview(frame), self._deadline(len(frame))
        while left:
            left = left[self._wait(partial(self._socket.send, left), deadline) :]

    def _wait(self, step: Callable[[], int], deadline: float) -> int:
        """Read or write some bytes, calling ``on_silence`` in every silence."""
        self._waited_s = self.timeout
        # A broker that sends a byte now and then would otherwise keep its client for ever.
        if time.monotonic() >= deadline:
            raise TimeoutError
        # on_silence takes time too, so that a slice may be a moment shorter than intended.
        silent_until = time.monotonic() + self._waited_s - self._slice / 2
        while True:
            try:
                return step()
            except TimeoutError:
                if time.monotonic() >= silent_until:
                    raise
                if self._on_silence:
                    self._on_silence()

    @contextlib.contextmanager
    def _as_unreachable(self) -> Iterator[None]:
        try:
            yield
        except FerryError:
            self.closed = True
            raise
        except TimeoutError as error:
            # The answer may still come, and would be treated as that of the next request.
            self.closed = True
            raise ClusterUnreachable(
                f"{self.address} did not answer within {self._waited_s or self._timeout:.3g} s."
            ) from error
        except ssl.SSLError as error:
            self.closed = True
            raise tls_fault(self.address, error) from error
        except socket.gaierror as error:
            self.closed = True
            raise ClusterUnreachable(
                f"{self.address}: this machine cannot resolve the name ({error.strerror}).",
                advice=UNRESOLVED,
            ) from error
        # An invalid host name or port does not raise an OSError.
        except (OSError, ValueError, OverflowError, kafka_errors.KafkaError) as error:
            self.closed = True
            raise ClusterUnreachable(
                f"{self.address}: {error}.",
                advice=UNREACHED,
            ) from error
