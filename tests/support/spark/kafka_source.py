"""A Spark application with Spark's own Kafka source, in a process of its own: Spark takes jars at its start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Literal

from kafka_sandbox.java.jars import SCALA_VERSION, Jars, class_path
from tests import PROJECT

_SPARK = version("pyspark")
# Spark has them already.
_THERE = (
    ("org.apache.hadoop", "*"),
    ("org.scala-lang", "*"),
    ("org.slf4j", "*"),
    ("org.apache.spark", f"spark-tags_{SCALA_VERSION}"),
)
_TOKENS = f"spark-token-provider-kafka-0-10_{SCALA_VERSION}"
SOURCE = Jars(
    "spark-kafka",
    (("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA_VERSION}", _SPARK),),
    without=(*_THERE, ("org.apache.spark", _TOKENS)),
)
"""Spark's Kafka source."""

TOKENS = Jars(
    "spark-kafka-tokens",
    # Newer ones cannot be fetched everywhere, and nothing of it is used but the configs it passes on.
    (("org.apache.spark", _TOKENS, "4.0.0"),),
    without=(*_THERE, ("org.apache.kafka", "*")),
)
"""What it logs in with, where it logs in."""

Kind = Literal["files", "counts"]
ANSWER = "ANSWER "
"""What a line of the application begins with that tells how a query ended."""

_APPLICATION = "tests.support.spark.queries"


@dataclass(frozen=True)
class Query:
    """A query that reads what there is, and stops.

    Attributes:
        bootstrap: of the cluster.
        topics: what it subscribes to.
        checkpoint: its checkpoint.
        output: where its records go.
        kind: ``files`` writes each value to files, whose sink takes each batch once, by its number;
            ``counts`` keeps a count of each value as its state, and writes all of them after each batch.
        at_once: records in a batch, about.
        conf: of Spark, for this query.
    """

    bootstrap: str
    topics: tuple[str, ...]
    checkpoint: Path
    output: Path
    kind: Kind = "files"
    at_once: int = 10_000
    conf: Mapping[str, str] = field(default_factory=dict)


class SparkApplication:
    """The process, for one query after the other."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "spark.log"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> SparkApplication:
        jars = [path for some in (SOURCE, TOKENS) for path in _files(some)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _APPLICATION, ",".join(map(str, jars))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=PROJECT,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process
        try:
            # It ends where there are no more queries.
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()
            self._process.wait()

    def run(self, query: Query) -> None:
        """Runs a query until it has read what there is.

        Raises:
            AssertionError: it failed; with what Spark says.
        """
        assert self._process and self._process.stdin and self._process.stdout
        print(json.dumps(asdict(query), default=str), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                failure = json.loads(line.removeprefix(ANSWER))
                assert not failure, failure
                return
        raise AssertionError(f"Spark has ended.\n{self._log.read_text()[-3000:]}")


def written(output: Path) -> list[str]:
    """The values that a query of kind ``files`` has written, each as often as it did, in any order."""
    log = sorted((output / "_spark_metadata").glob("[0-9]*"), key=lambda file: int(file.name))
    # The first line is the log's version; a batch is in it once, however often it was written.
    adds = [json.loads(line) for file in log for line in file.read_text().splitlines()[1:]]
    files = [Path(add["path"].removeprefix("file://")) for add in adds]
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [json.loads(line)["value"] for line in lines]


def counted(output: Path) -> dict[str, int]:
    """The counts that a query of kind ``counts`` has written last."""
    return dict(json.loads(output.read_text()))


def _files(jars: Jars) -> list[Path]:
    class_path(jars)
    return sorted(jars.lib.glob("*.jar"))
