"""A stranger on the machine gets nothing: neither by a connection to a port of a run, nor by files near it."""

from __future__ import annotations

import ipaddress
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.spark.checkpoint import QueryCheckpoint, StartRanges
from kafka_ferry.spark.jobs import run_in_tasks
from kafka_ferry.spark.query import run_query
from kafka_ferry.spark.security.private_sockets import is_private
from kafka_ferry.spark.security.serialized_flow import envelope, open_envelope
from kafka_ferry.spark.session import SparkSource, terminal_spark
from kafka_ferry.state import StateFolder
from tests.support.records.builders import Record
from tests.support.runs.flows import write_flow
from tests.support.runs.pair import Pair

WORD = "l0gin-pa5sword"
_HEADER = struct.Struct(">qb")
_RPC_REQUEST, _CHUNK_REQUEST, _CHUNK, _RPC_RESPONSE = 3, 0, 1, 4
PROBES = {
    "py4j: a call": b"c\nt\ngetClass\ne\n",
    "py4j: a garbage collection": b"g\np999\ne\n",
    "HTTP": b"GET /jobs/ HTTP/1.0\r\n\r\n",
    "silence": b"",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("strangers", 2) as spark:
        yield spark


@pytest.fixture(scope="module")
def flow() -> Flow:
    """A flow that holds a password."""
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="ann" password="{WORD}";'
    )
    secret = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    source, target = (
        Cluster(alias=alias, properties={"bootstrap.servers": f"127.0.0.1:{port}", **secret})
        for alias, port in (("a", 1), ("b", 2))
    )
    return Flow(source=source, target=target, topics=("x",))


@pytest.fixture(scope="module")
def ports(
    spark: SparkSource, flow: Flow, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[str, int]]:
    """Where the driver and its processes listen while a query has just copied with a flow."""
    found: list[str] = []

    def batch(rows: DataFrame, _: int) -> None:
        work = partial(_password, envelope(flow))
        found.extend(run_in_tasks(rows.sparkSession, work, [0, 1]))

    checkpoint = QueryCheckpoint(StateFolder(str(tmp_path_factory.mktemp("checkpoint"))))
    run_query(spark(), "strangers", checkpoint, StartRanges("run", "one", 0, ()), batch)
    assert [WORD in text for text in found] == [True, True]
    me = psutil.Process()
    return [
        (one.laddr.ip, one.laddr.port)
        for process in (me, *me.children(recursive=True))
        for one in process.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    ]


def _password(flow: bytes, _: int) -> str:
    return open_envelope(flow).source.client_properties("consumer")["sasl.jaas.config"]


def test_the_driver_s_temporary_files_are_where_no_stranger_enters(
    spark: SparkSource, ports: list[tuple[str, int]]
) -> None:
    assert ports
    jvm: Any = spark().sparkContext._jvm
    place = Path(jvm.java.lang.System.getProperty("java.io.tmpdir"))
    assert is_private(place)
    # Native code that the JVM loads.
    assert list(place.rglob("*.so"))


def test_all_of_them_are_on_the_loopback_address(ports: list[tuple[str, int]]) -> None:
    assert len(ports) >= 3
    assert [host for host, _ in ports if not _address(host).is_loopback] == []


@pytest.mark.parametrize("probe", PROBES)
def test_none_of_them_answers_without_the_application_s_secret(
    probe: str, ports: list[tuple[str, int]]
) -> None:
    answers = dict(zip(ports, _together(partial(_answer, PROBES[probe]), ports), strict=True))
    # py4j and the JVM may say that they refuse.
    given = {
        port: it for port, it in answers.items() if it and not it.startswith((b"!x", b"!z", b"A"))
    }
    assert given == {}


def test_no_block_of_a_job_is_given_away(ports: list[tuple[str, int]]) -> None:
    blocks = [f"broadcast_{number}_piece0" for number in range(8)]
    assert not any(_together(lambda it: _block(*it), [*product(ports, blocks)]))


def _together(ask: Callable[[Any], bytes], all_of: list[Any]) -> list[bytes]:
    """The answer to each, asked side by side: most ports say nothing, and are waited for."""
    with ThreadPoolExecutor(len(all_of)) as pool:
        return list(pool.map(ask, all_of))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(host)
    return getattr(found, "ipv4_mapped", None) or found


def _answer(said: bytes, port: tuple[str, int]) -> bytes:
    try:
        with socket.create_connection(port, 1) as stranger:
            stranger.sendall(said)
            return stranger.recv(4096)
    except OSError:
        return b""


def _block(port: tuple[str, int], block: str) -> bytes:
    """A block of Spark's, by the protocol of its block managers; empty where it is refused."""
    text = _text("app") + _text("driver") + struct.pack(">i", 1) + _text(block)
    opening = struct.pack(">b", 0) + text
    head = struct.pack(">qi", 7, len(opening))
    try:
        with socket.create_connection(port, 2) as stranger:
            stranger.sendall(_framed(_RPC_REQUEST, head + opening))
            kind, body = _message(stranger)
            if kind != _RPC_RESPONSE:
                return b""
            # The handle: the id of a request, a length, the kind of message and the stream's id.
            (stream,) = struct.unpack_from(">q", body, 8 + 4 + 1)
            stranger.sendall(_framed(_CHUNK_REQUEST, struct.pack(">qi", stream, 0)))
            kind, body = _message(stranger)
    except (OSError, EOFError, struct.error):
        return b""
    return body if kind == _CHUNK else b""


def _framed(kind: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind) + body


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def _message(stranger: socket.socket) -> tuple[int, bytes]:
    with stranger.makefile("rb", buffering=0) as stream:
        head = stream.read(_HEADER.size) or b""
        size, kind = _HEADER.unpack(head)
        body = b""
        while len(body) < size - _HEADER.size:
            part = stream.read(size - _HEADER.size - len(body))
            if not part:
                raise EOFError
            body += part
        return kind, body


def test_a_run_starts_no_program_that_lies_near_the_folder_in_which_it_was_called(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("near", [Record(value=b"x")] * 3)
    file = write_flow(pair.folder, pair.primary, pair.backup, [topic])
    called, seen = pair.folder / "shared" / "work", pair.folder / "seen"
    called.mkdir(parents=True)
    for module in ("kafka_ferry", "pyspark"):
        (called / f"{module}.py").write_text(f"open({str(seen)!r}, 'w')")
    spark = called.parent / "bin" / "spark-submit"
    spark.parent.mkdir()
    (called.parent / "jars").mkdir()
    spark.write_text(f"#!/bin/sh\ntouch {seen}\nexit 1\n")
    spark.chmod(0o755)
    monkeypatch.chdir(called)
    for name in ("SPARK_HOME", "PYTHONSAFEPATH"):
        monkeypatch.delenv(name, raising=False)

    ran = subprocess.run(
        [Path(sys.executable).with_name("ferry"), "run", "--config", file, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert not seen.exists()
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["records"] == 3
