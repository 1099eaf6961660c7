"""What is shown of a flow, from the files that its runs have left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.runs.state.file_cache import FileCache
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.runs.views import FlowViews
from kafka_ferry.state import StateFolder
from tests.support.runs.shown_flows import Past, big_topics, write_partial_run, write_past

TWO_TOPICS = Past(topics=(("orders", 8), ("payments", 2)), runs=30, reports=2)


def test_there_is_nothing_to_show_before_the_first_run(flow: Flow) -> None:
    showing = FlowViews(flow)
    assert showing.history() == ()
    assert (showing.topics(), showing.partitions(), showing.groups()) == ((), (), ())
    assert showing.run("run") is None
    assert (showing.report_page("run"), showing.has_docs) == (None, False)


def test_the_past_of_a_flow_is_shown(flow: Flow) -> None:
    newest = write_past(flow, TWO_TOPICS)[0]
    showing = FlowViews(flow)
    assert len(showing.history()) == 30
    assert showing.history()[-1].run == newest
    assert [(topic.topic, topic.partitions) for topic in showing.topics()] == [
        ("orders", 8),
        ("payments", 2),
    ]
    assert len(showing.partitions()) == 10
    assert {group.group for group in showing.groups()} >= {"billing", "fraud-detection"}
    assert b"<html" in (showing.report_page(newest) or b"")


def test_a_run_shows_its_steps_and_its_report(flow: Flow) -> None:
    newest = write_past(flow, TWO_TOPICS)[0]
    view = FlowViews(flow).run(newest)
    assert view is not None and view.summary is not None and view.report is not None
    assert [step.name for step in view.steps][:2] == ["plan", "sync_topics"]
    assert view.options is not None and not view.options.dry_run


def test_a_run_whose_folder_was_cleared_away_has_still_its_line(flow: Flow) -> None:
    oldest = write_past(flow, TWO_TOPICS)[-1]
    view = FlowViews(flow).run(oldest)
    assert view is not None and view.summary is not None
    assert view.report is None


def test_ranges_of_a_run_come_from_the_ledger_with_their_reasons(flow: Flow) -> None:
    newest = write_past(flow, TWO_TOPICS)[0]
    ranges = FlowViews(flow).ranges(newest)
    assert len(ranges) == 10
    first = ranges[0]
    assert (first.topic, first.partition, first.offsets) == ("orders", 0, 9_000)
    assert first.offsets == first.records + sum(first.reasons.values())
    assert all(one.verified for one in ranges)
    assert FlowViews(flow).ranges("another run") == ()


def test_a_run_for_one_topic_leaves_the_others_as_they_were(flow: Flow) -> None:
    write_past(flow, TWO_TOPICS)
    later = write_partial_run(flow, now_ms() + 1_000, ("payments",))
    shown = {(view.topic, view.partition): view.run for view in FlowViews(flow).partitions()}
    assert len(shown) == 10
    assert {run for (topic, _), run in shown.items() if topic == "payments"} == {later}
    assert later not in {run for (topic, _), run in shown.items() if topic == "orders"}


def test_an_older_run_that_is_published_again_is_not_the_last_look_at_partitions(
    flow: Flow,
) -> None:
    newest, older, *_ = write_past(flow, TWO_TOPICS)
    again = next(one for one in FlowViews(flow).history() if one.run == older)
    folder = RunFolder(flow_state(flow).folder("runs"), older)
    folder.remember(replace(again, finished_at=now_ms() + 1_000))
    assert FlowViews(flow).history()[-1].run == older
    assert {view.run for view in FlowViews(flow).partitions()} == {newest}


def test_what_is_published_since_is_shown_at_once(flow: Flow) -> None:
    write_past(flow, TWO_TOPICS)
    showing = FlowViews(flow)
    assert len(showing.history()) == 30
    write_partial_run(flow, now_ms() + 1_000, ("payments",))
    assert len(showing.history()) == 31


def test_a_report_of_another_release_shows_nothing_and_breaks_nothing(flow: Flow) -> None:
    newest = write_past(flow, TWO_TOPICS)[0]
    RunFolder(flow_state(flow).folder("runs"), newest).files.write("report.json", "{}")
    showing = FlowViews(flow)
    assert showing.report(newest) is None
    # The run before it has looked at all of them too.
    assert len(showing.partitions()) == 10


@pytest.mark.parametrize(
    "name",
    ["../runs/history.jsonl", "..", "", "/etc/passwd", "runs/../../x", "a\\b", "./index.html"],
)
def test_data_docs_give_nothing_from_outside_of_their_folder(flow: Flow, name: str) -> None:
    write_past(flow, TWO_TOPICS)
    flow_state(flow).folder("data_docs").write("index.html", "docs")
    assert FlowViews(flow).has_docs
    assert FlowViews(flow).docs_page("index.html") == b"docs"
    assert FlowViews(flow).docs_page(name) is None


def test_10_000_partitions_are_shown_in_less_than_three_seconds_and_again_at_once(
    flow: Flow,
) -> None:
    newest = write_past(flow, Past(topics=big_topics(10_000), runs=1, reports=1))[0]
    began = time.process_time()
    assert len(FlowViews(flow).partitions()) == 10_000
    assert len(FlowViews(flow).ranges(newest)) == 10_000
    first = time.process_time() - began
    assert len(FlowViews(flow).partitions()) == 10_000
    again = time.process_time() - began - first
    assert first < 3
    assert again < first / 4


def test_a_file_is_parsed_once_for_each_of_its_versions(tmp_path: Path) -> None:
    folder, made = StateFolder(str(tmp_path)), FileCache(keep=2)
    parsed: list[bytes] = []

    def parse(content: bytes) -> int:
        parsed.append(content)
        return len(content)

    folder.write("a", "1")
    assert [made.load(folder, "a", parse) for _ in range(3)] == [1, 1, 1]
    folder.write("a", "22")
    assert made.load(folder, "a", parse) == 2
    assert parsed == [b"1", b"22"]


def test_a_file_of_the_same_size_is_known_by_its_time(tmp_path: Path) -> None:
    folder, made = StateFolder(str(tmp_path)), FileCache(keep=2)
    folder.write("a", "1")
    assert made.load(folder, "a", bytes.decode) == "1"
    folder.write("a", "2")
    os.utime(tmp_path / "a", (2_000_000_000, 2_000_000_000))
    assert made.load(folder, "a", bytes.decode) == "2"


def _recorder() -> tuple[list[bytes], Callable[[bytes], bytes]]:
    """A parser that gives a file's bytes as they are, with the list of those that it was given."""
    parsed: list[bytes] = []

    def parse(content: bytes) -> bytes:
        parsed.append(content)
        return content

    return parsed, parse


def test_what_was_not_asked_for_the_longest_is_forgotten_first(tmp_path: Path) -> None:
    folder, made = StateFolder(str(tmp_path)), FileCache(keep=2)
    parsed, parse = _recorder()
    for name in "abc":
        folder.write(name, name)
    for name in "abacab":
        made.load(folder, name, parse)
    assert parsed == [b"a", b"b", b"c", b"b"]


def test_files_are_kept_up_to_a_sum_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_ferry.runs.state.file_cache._MOST_BYTES", 5)
    folder, made = StateFolder(str(tmp_path)), FileCache(keep=9)
    parsed, parse = _recorder()
    for name in "abc":
        folder.write(name, name * 2)
        made.load(folder, name, parse)
    made.load(folder, "c", parse)
    assert made.load(folder, "a", parse) == b"aa"
    assert parsed == [b"aa", b"bb", b"cc", b"aa"]


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert FileCache(keep=2).load(StateFolder(str(tmp_path)), "a", bytes.decode) is None
