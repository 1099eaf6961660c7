"""A name that a stranger chose says nothing but itself, in each place where a plan or a report is shown."""

from __future__ import annotations

import dataclasses
import logging
import traceback
import types
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from html import escape
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

import kafka_ferry_airflow
from kafka_ferry.cli.commands.plan import plan_json
from kafka_ferry.cli.terminal import messages, out, show_json, show_table
from kafka_ferry.errors import (
    AccessDenied,
    CheckpointRefused,
    ClusterUnreachable,
    FerryError,
    GroupsFailed,
    NotApplied,
    VerificationFailed,
    mask_errors,
)
from kafka_ferry.model import Note, Plan, Refusal
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.printable import Printable
from kafka_ferry.report import RunReport, render
from kafka_ferry.report.metrics import Sample
from kafka_ferry.report.notice import Fact, Notice, fact
from kafka_ferry.report.plan_text import changes_on_target, plan_text
from kafka_ferry.runs.publish.prometheus import _Collector
from kafka_ferry.secret_values import MASK, remember
from kafka_ferry.verify.expectations.offline_page import content_of, page
from kafka_ferry_airflow.dags.plan_text import plan_markdown
from tests.support.runs.reports import a_failure

FORGED = "verified: complete"
EVIL = (
    f"evil\n~~~~~~\n# {FORGED}\r\x1b[2J\u202e\u200f\u2028<script>alert(1)</script>|[x](http://evil)"
)


def filled(kind: Any) -> Any:
    """An object of a type, in which each text is the evil name."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        try:
            return filled(next(it for it in args if it is not type(None)))
        except ValueError:
            return None  # such as a window that begins when it ends
    if origin is Literal:
        return args[0]
    if origin is tuple:
        return (filled(args[0]),) if args[-1] is Ellipsis else tuple(map(filled, args))
    if origin in (list, Sequence):
        return [filled(args[0])]
    if origin is Counter:
        return Counter({filled(args[0]): 3})
    if origin in (dict, Mapping):
        return {filled(args[0]): filled(args[1])}
    if origin in (set, frozenset):
        return frozenset({filled(args[0])})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(
            **{it.name: filled(hints[it.name]) for it in dataclasses.fields(kind) if it.init}
        )  # type: ignore[operator]
    simple: dict[Any, Any] = {
        str: EVIL,
        int: 3,
        float: 3.0,
        bool: True,
        bytes: EVIL.encode(),
        Path: Path(EVIL),
    }
    if kind in simple:
        return simple[kind]
    if isinstance(kind, type) and issubclass(kind, str):
        return kind(EVIL)
    raise TypeError(kind)


PLAN: Plan = filled(Plan)


def is_harmless(text: str, *, breaks: str = "") -> bool:
    """Whether it holds no character that moves the cursor or has no width, other than ``breaks``."""
    return not any(
        unicodedata.category(it) in ("Cc", "Cf", "Zl", "Zp") for it in text if it not in breaks
    )


@pytest.mark.parametrize("verbose", [True, False])
def test_each_line_of_a_plan_is_one_line(verbose: bool) -> None:
    lines = [line.text for line in plan_text(PLAN, verbose=verbose)]
    assert len(lines) > 20
    assert all(map(is_harmless, lines))
    assert sum(FORGED in line for line in lines) > 20
    # The log of the task that makes them has them by themselves.
    assert all(map(is_harmless, changes_on_target(PLAN)))


def test_no_name_ends_the_fence_of_an_approval() -> None:
    first, *lines, last = plan_markdown(PLAN).split("\n")
    fence = first.removesuffix("text")
    assert last == fence and not fence.strip("~")
    assert all(is_harmless(line) and fence not in line for line in lines)


def test_the_terminal_shows_each_name_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    for line in plan_text(PLAN):
        out.print(line.text)
        messages.print(line.text)
    show_table(["topic"], [[EVIL]])
    shown, told = capsys.readouterr()
    lines = list(plan_text(PLAN))
    assert shown.count("\n") == len(lines) + 2 and told.count("\n") == len(lines)
    assert is_harmless(shown, breaks="\n") and is_harmless(told, breaks="\n")


def test_a_log_line_is_one_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "the topic %s of %d", (EVIL, 3), None)
    assert is_harmless(Printable().format(record))


def test_json_is_for_terminals_too(capsys: pytest.CaptureFixture[str]) -> None:
    show_json([plan_json(PLAN)], several=False)
    shown = capsys.readouterr().out
    assert FORGED in shown and is_harmless(shown, breaks="\n\u2028")


def test_a_page_holds_nothing_that_a_browser_would_obey() -> None:
    page = render(filled(RunReport))
    assert FORGED in page and "<script>alert" not in page
    assert is_harmless(page, breaks="\n\t\u2028")


def test_the_mirrors_page_writes_all_text_by_one_function() -> None:
    scripts = Path(kafka_ferry_airflow.__file__).parent / "page" / "static"
    base = (scripts / "base.js").read_text()
    assert "...children.map(shown)" in base and base.count("createElement") == 1
    for script in scripts.glob("*.js"):
        text = script.read_text()
        assert script.name == "base.js" or "createElement(" not in text.replace('("style")', "")
        assert "innerHTML" not in text and "dangerously" not in text


@pytest.mark.parametrize("kind", [FerryError, AccessDenied, ClusterUnreachable, VerificationFailed])
def test_no_name_begins_a_line_of_an_error(kind: type[FerryError]) -> None:
    error = kind(f"the group {EVIL}", advice="Look.", details=[f"of {EVIL}", "another"])
    assert is_harmless(str(error), breaks="\n")
    assert [line.strip()[:3] for line in str(error).split("\n")] == ["the", "of ", "ano"]


@pytest.mark.parametrize(
    "error",
    [
        RangesFailed(
            [a_failure(message=EVIL)] * 2, transient=False, refused=[Refusal(EVIL, EVIL, EVIL)]
        ),
        NotApplied([EVIL] * 3),
        GroupsFailed([EVIL] * 3, transient=False),
        CheckpointRefused([EVIL] * 3, location=EVIL),
    ],
)
def test_each_failure_of_an_error_is_one_line(error: FerryError) -> None:
    assert error.message.count("\n") == 3
    assert is_harmless(str(error), breaks="\n")


def test_data_docs_hold_nothing_that_moves_a_cursor() -> None:
    built = f"<td class='{escape(EVIL)}'>{escape(EVIL)}</td>"
    shown = page(EVIL, content_of(built, expectations="x/"), home="index.html")
    assert FORGED in shown and "<script>alert" not in shown
    assert is_harmless(shown, breaks="\n\u2028")


def test_a_metric_and_a_lineage_event_say_each_name_in_its_line() -> None:
    (family,) = _Collector(
        [Sample("checkpoint-latency-ms", {"group": EVIL, "topic": EVIL}, 1)]
    ).collect()
    (sample,) = family.samples
    assert all(map(is_harmless, sample.labels.values()))


def test_names_that_look_alike_are_two_to_prometheus_which_refuses_a_sample_that_comes_twice() -> (
    None
):
    groups = ("a\n", "a\\n", "a\\\\n")
    (family,) = _Collector(
        [Sample("group-records-behind", {"group": group}, 1) for group in groups]
    ).collect()
    assert len({sample.labels["group"] for sample in family.samples}) == len(groups)


def test_a_message_says_each_name_in_its_line() -> None:
    notice = replace(filled(Notice), facts=(fact("failed", EVIL, [EVIL], EVIL), filled(Fact)))
    lines = [notice.title, *notice.lines]
    assert all(map(is_harmless, lines)) and len(lines) > 5


def test_no_output_shows_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    secret = "correct-horse-battery"
    remember([secret])
    leaking = replace(
        PLAN, flow=secret, remarks=replace(PLAN.remarks, notes=(Note("orders", secret),))
    )
    for line in plan_text(leaking):
        out.print(line.text)
    show_table(["flow"], [[secret]])
    show_json([plan_json(leaking)], several=False)
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%s", (secret,), None)
    shown = capsys.readouterr().out + Printable().format(record) + plan_markdown(leaking)
    shown += render(replace(filled(RunReport), flow=secret)) + fact("failed", secret).headline
    assert secret not in shown and shown.count(MASK) > 5


def test_no_traceback_shows_a_secret() -> None:
    remember(["correct-horse-battery"])

    def fail(kind: type[Exception]) -> None:
        with mask_errors():
            try:
                raise ValueError("password=correct-horse-battery")
            except ValueError as error:
                if kind is ValueError:
                    raise
                raise kind("it failed") from error

    for kind in (ValueError, RuntimeError, FerryError):
        with pytest.raises(Exception) as caught:
            fail(kind)
        text = "".join(traceback.format_exception(caught.value))
        assert "correct-horse-battery" not in text
        assert "it failed" in text or "ValueError" in text
