"""The flow's transform rule: as its function, as what Spark evaluates of its SQL, and as the oracles know it.

By the number at a value's end a record stays as it is, is changed or left out, or the rule fails for it. There are two
such rules: a flow may get the other one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_ferry.transform import Evaluated, TransformRecord

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.transform import Columns, Decimals, Reads, RecordRows

Kind = Literal["", "sql", "function"]
Fate = Literal["same", "changed", "left out", "failed"]

_NUMBER: Final = re.compile(rb"^(?:backup:)?[a-z]+-\d+/(\d+)\+*$")
_CHANGED: Final = b"~"


def fate(value: bytes | None, which: int = 0) -> Fate:
    """What a rule makes of a record that clients of the source have written; others stay the same."""
    found = _NUMBER.match(value or b"")
    number = int(found[1]) + which if found else 0
    if number % 11 == 4:
        return "failed"
    return "left out" if number % 5 == 3 else "changed" if number % 2 else "same"


def fates(value: bytes | None, *, is_replaced: bool) -> set[Fate]:
    """What the flow's rules make of a record: the one that it has first, and the other one if it gets that."""
    return {fate(value, which) for which in range(1 + is_replaced)}


def as_source(value: bytes | None, *, is_replaced: bool) -> bytes | None:
    """The value on the source of one on the target; one that no client has written where no rule gives it."""
    if value is None:
        return None
    before = value.removeprefix(_CHANGED)
    right: set[Fate] = {"changed"} if before != value else {"same", "failed"}
    is_right = right & fates(before, is_replaced=is_replaced)
    return before if is_right else b"%b, unlike the rule" % value


def apply(which: int, record: TransformRecord, _: Mapping[str, str]) -> TransformRecord | None:
    """A rule as a function."""
    became = fate(record.value, which)
    if became == "failed":
        raise ValueError("no such record")
    if became == "left out":
        return None
    is_changed = became == "changed"
    return replace(record, value=_CHANGED + (record.value or b"")) if is_changed else record


def rule_options(kind: Kind, which: int, folder: Path) -> dict[str, object]:
    """A rule in a flow's file; the function's file is in a folder."""
    does: dict[str, object] = {"where": f"{which}", "set": {"value": "v"}}
    if kind == "function":
        does = {"function": "rules.apply"}
        begin = "from functools import partial\nfrom tests.simulation import rule\n"
        (folder / "rules.py").write_text(f"{begin}apply = partial(rule.apply, {which})\n")
    return {"transform": [{"topics": [".*"], **does}], "transform.functions": str(folder)}


class Evaluator:
    """``transform.Evaluator`` of a flow's rule in SQL."""

    columns: Columns = (frozenset({"value"}),)
    decimals: Decimals = (MappingProxyType({"key": (), "value": ()}),)
    reads: Reads = ((),)

    def __init__(self, flow: Flow) -> None:
        self._which = int(flow.transform[0].where or 0)

    def evaluate(self, rows: RecordRows) -> Any:
        """What Spark gives for rows, at once."""
        evaluated = Evaluated()
        for value in rows.values:
            became = fate(value, self._which)
            # One that its "where" fails for, the first step, is not kept either.
            step = len(value or b"") % 2 if became == "failed" else -1
            evaluated.keep.append(became != "left out" and step != 0)
            evaluated.failed.append(step)
            evaluated.values.append((_CHANGED + (value or b"") if became == "changed" else value,))
        return SimpleNamespace(result=lambda timeout: evaluated)


def run_by_rules(
    run_in_tasks: Callable[..., list[Any]],
) -> Callable[[object, Flow, Sequence[Any], Callable[..., Any]], list[Any]]:
    """``spark.transforms.run_by_rules`` by what runs tasks."""

    def run(spark: object, flow: Flow, items: Sequence[Any], work: Callable[..., Any]) -> list[Any]:
        def results() -> Iterator[Any]:
            for of_task in run_in_tasks(spark, lambda it: work(flow, it, Evaluator(flow)), items):
                yield from of_task

        return [*results()]

    return run
