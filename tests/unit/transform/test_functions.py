"""A user's Python function as a rule: what it may do, and what is told of one that cannot be."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.batches import (
    AbortFilter,
    ConvertedBatch,
    Reason,
    TooLarge,
    TopicLimits,
    converted_batches,
    records_of,
)
from kafka_ferry.batches.record_format.content import read_content
from kafka_ferry.config import Flow
from kafka_ferry.errors import ConfigError
from kafka_ferry.model import TopicPartition
from kafka_ferry.spark.packed_changes import packed_functions, unpacked_functions
from kafka_ferry.transform import (
    FunctionRule,
    TransformedBatch,
    TransformFunction,
    TransformRecord,
    load_functions,
)
from tests.support.records.batches import Record, a_batch
from tests.unit.config.builders import a_flow

PARTITION = TopicPartition("orders", 3)
SECRETS = {"salt": "s3cret", "key": "-----BEGIN-----\n'a\\b'\n"}
FILE = """
from dataclasses import replace

MARK = b"!"


def loud(record, secrets):
    return replace(record, value=record.value + MARK)


number = 7
"""


def a_converted() -> ConvertedBatch:
    records = [
        Record(5, b"a", b"one", (("h", b"1"), ("g", None))),
        Record(6, b"b", None),
        Record(7, None, b"three"),
    ]
    (converted,) = converted_batches(a_batch(records, at=10), AbortFilter(()), 10, 13)
    return converted


def applied(
    function: TransformFunction, converted: ConvertedBatch | None = None
) -> TransformedBatch:
    rule = FunctionRule("masks.f", function, SECRETS)
    return rule.apply(converted or a_converted(), PARTITION, TopicLimits())


def contents(batch: TransformedBatch) -> dict[int, Any]:
    return {
        record[0]: read_content(record[3]) for it in batch.converted for record in records_of(it)
    }


def test_a_function_gets_all_of_a_record_and_the_secrets() -> None:
    seen: list[tuple[TransformRecord, Mapping[str, str]]] = []

    def watch(record: TransformRecord, secrets: Mapping[str, str]) -> TransformRecord:
        seen.append((record, secrets))
        return record

    converted = a_converted()
    assert applied(watch, converted).converted == (converted,)
    headers = (("h", b"1"), ("g", None))
    assert seen[0] == (
        TransformRecord("orders", 3, 10, 5, b"a", b"one", headers),
        SECRETS,
    )
    assert [record.value for record, _ in seen] == [b"one", None, b"three"]


def test_key_value_and_headers_change_and_none_leaves_a_record_out() -> None:
    def change(record: TransformRecord, _: Mapping[str, str]) -> TransformRecord | None:
        if record.value is None:
            return None
        headers = (*record.headers, ("new", b"n"))
        return replace(record, key=b"k", value=record.value.upper(), headers=headers)

    found = applied(change)

    assert found.errors == {}
    assert contents(found) == {
        10: (b"k", b"ONE", ((b"h", b"1"), (b"g", None), (b"new", b"n"))),
        12: (b"k", b"THREE", ((b"new", b"n"),)),
    }
    assert sum(it.reasons.get(Reason.FILTERED, 0) for it in found.converted) == 1


def _raises(record: TransformRecord, secrets: Mapping[str, str]) -> TransformRecord:
    raise ValueError(f"no {secrets['salt']} here")


def _raises_key(record: TransformRecord, secrets: Mapping[str, str]) -> TransformRecord:
    raise KeyError(secrets["key"])


def _exits(record: TransformRecord, _: Mapping[str, str]) -> TransformRecord:
    sys.exit(3)


def _cancels(record: TransformRecord, _: Mapping[str, str]) -> TransformRecord:
    raise CancelledError


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)


def _is_unprintable(record: TransformRecord, _: Mapping[str, str]) -> TransformRecord:
    raise Unprintable


def _is_no_text(record: TransformRecord, _: Mapping[str, str]) -> TransformRecord:
    raise ValueError("\udc80")


def _moves(record: TransformRecord, _: Mapping[str, str]) -> TransformRecord:
    return replace(record, offset=0)


def _tells(_: TransformRecord, __: Mapping[str, str]) -> Any:
    return True


def _gives_text(record: TransformRecord, _: Mapping[str, str]) -> Any:
    return replace(record, value="text")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_raises, "masks.f failed: ValueError: no ****** here"),
        (_raises_key, 'masks.f failed: KeyError: "******"'),
        (_exits, "masks.f failed: SystemExit: 3"),
        (_cancels, "masks.f failed: CancelledError"),
        (_is_unprintable, "masks.f failed: Unprintable: it cannot be printed: SystemExit"),
        (_is_no_text, r"masks.f failed: ValueError: \udc80"),
        (_moves, "it changed something else than key, value and headers"),
        (_tells, "it gave bool, and not a TransformRecord or None"),
        (_gives_text, "masks.f failed: TypeError"),
    ],
)
def test_a_record_for_which_it_fails_is_unchanged_and_named(
    function: TransformFunction, said: str
) -> None:
    converted = a_converted()

    found = applied(function, converted)

    assert found.converted == (replace(converted, rule_counts={"changed": 0, "failed": 3}),)
    assert found.errors.keys() == {10, 11, 12}
    assert said in found.errors[10]


def test_it_gets_no_record_of_very_many_headers() -> None:
    flood = Record(value=b"v", headers=[("", b"")] * 100_001)
    [converted] = converted_batches(a_batch([flood]), AbortFilter(()), 0, 1)

    found = applied(lambda *_: None, converted)

    assert found.errors == {0: "it has more than 100,000 headers"}
    assert found.converted[0].batch == converted.batch


def flow_with(folder: Path, function: str) -> Flow:
    rule = {"topics": ["orders"], "function": function}
    return a_flow(transform=[rule], transform_functions=str(folder))


def test_it_gets_no_more_records_at_once_than_memory_is_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_ferry.transform.functions._MOST_RECORDS", 2)
    with pytest.raises(TooLarge):
        applied(lambda record, _: record)


def test_tasks_get_its_code_and_its_fingerprint_changes_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    file = tmp_path / "team" / "masks.py"
    file.write_text(FILE)
    flow = flow_with(tmp_path, "team.masks.loud")
    before = flow.fingerprint_of("orders")
    pack = packed_functions(flow)
    file.unlink()

    function = unpacked_functions(pack)["team.masks.loud"]

    record = TransformRecord("orders", 0, 0, 0, None, b"hey")
    assert function(record, {}) == replace(record, value=b"hey!")
    assert flow.fingerprint_of("orders") != before
    file.write_text(FILE)
    assert flow.fingerprint_of("orders") == before
    assert packed_functions(a_flow()) == b""


def test_what_it_gets_beforehand_goes_along(tmp_path: Path) -> None:
    code = "from functools import partial\ndef f(end, record, _): return record.value + end\n"
    (tmp_path / "masks.py").write_text(f"{code}loud = partial(f, b'!')\n")

    (function,) = unpacked_functions(packed_functions(flow_with(tmp_path, "masks.loud"))).values()

    assert function(TransformRecord("orders", 0, 0, 0, None, b"hey"), {}) == b"hey!"


def test_one_that_cannot_be_sent_to_tasks_is_refused(tmp_path: Path) -> None:
    lock = "import threading\nLOCK = threading.Lock()\ndef f(record, _):\n    with LOCK: return record\n"
    (tmp_path / "masks.py").write_text(lock)

    with pytest.raises(ConfigError, match="cannot be sent to Spark's tasks: TypeError"):
        packed_functions(flow_with(tmp_path, "masks.f"))


@pytest.mark.parametrize(
    ("function", "content", "said"),
    [
        ("masks.loud", None, "masks.py, which does not exist"),
        ("masks.quiet", FILE, "masks.py has no function 'quiet'"),
        ("masks.number", FILE, "masks.number is not a function"),
        ("masks.loud", "import nowhere_at_all", "masks.py cannot be imported: ModuleNotFoundError"),
        ("masks.loud", "def loud(:", "masks.py cannot be imported: SyntaxError"),
        ("masks.loud", "import sys\nsys.exit()", "masks.py cannot be imported: SystemExit"),
    ],
)
def test_one_that_cannot_be_loaded_is_named(
    tmp_path: Path, function: str, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "masks.py").write_text(content)

    with pytest.raises(ConfigError, match="rule 1") as caught:
        load_functions(flow_with(tmp_path, function))

    assert said in str(caught.value)
    assert "transform, rule 1 (orders), function" in str(caught.value)
