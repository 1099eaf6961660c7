"""Commands over several flows: each is tried, and what failed is named at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_ferry.cli import main
from kafka_ferry.cli.entry import _one_value_each
from kafka_ferry.config import Flow
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, FerryError
from kafka_ferry.model import Creation, Plan
from kafka_ferry.model.plan import TopicChanges

PROPERTIES = """
clusters = west, east, north
west.bootstrap.servers = west:9092
east.bootstrap.servers = east:9092
north.bootstrap.servers = north:9092
west->east.enabled = true
east->west.enabled = true
west->north.enabled = true
"""
Ferry = Callable[..., int]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file with three flows."""
    file = tmp_path / "mm2.properties"
    file.write_text(PROPERTIES)
    return file


@pytest.fixture
def ferry(monkeypatch: pytest.MonkeyPatch) -> Ferry:
    """Runs the command line and gives its exit status."""

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["ferry", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> dict[str, FerryError | Creation]:
    """What planning a flow comes to, by the flow's name: an error, or something to create."""
    found: dict[str, FerryError | Creation] = {}

    class Run:
        def __init__(self, flow: Flow, run_id: str) -> None:
            self.name, self.run_id = flow.name, run_id

        def plan(self, options: object, *, save: bool, spark: object) -> Plan:
            assert not save
            outcome = found.get(self.name)
            if isinstance(outcome, FerryError):
                raise outcome
            changes = TopicChanges(creations=(outcome,) if outcome else ())
            return Plan(self.name, self.run_id, 1, "A", "B", topics=changes)

    monkeypatch.setattr("kafka_ferry.runs.Run", Run)
    return found


CREATION = Creation("west.orders", 3, 1, {})
UNREACHABLE = ClusterUnreachable("No broker answers.")
DENIED = AccessDenied("No right.")


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("", ""),
        ("groups: [billing]\n", "groups: not moved (sync.group.offsets.enabled: false)"),
        ("sync.group.offsets.enabled: true\n", "groups: moved once the copy is proved (.*); where"),
    ],
)
def test_a_plan_says_what_becomes_of_groups(
    ferry: Ferry,
    tmp_path: Path,
    outcomes: object,
    capsys: pytest.CaptureFixture[str],
    more: str,
    line: str,
) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(
        "source: {alias: a, bootstrap.servers: a:1}\ntarget: {alias: b, bootstrap.servers: b:1}\n"
        f"topics: [t]\n{more}"
    )
    assert ferry("plan", "--config", file) == 0
    _, *groups = capsys.readouterr().out.splitlines()
    assert " ".join(groups)[: len(line)] == line
    assert bool(groups) == bool(line)


def test_all_flows_of_a_file_are_planned_one_after_the_other(
    ferry: Ferry, config: Path, outcomes: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ferry("plan", "--config", config) == 0
    assert capsys.readouterr().out.splitlines() == [
        "west->east: nothing to do",
        "west->north: nothing to do",
        "east->west: nothing to do",
    ]


def test_a_flow_that_fails_does_not_stop_the_others_and_is_named_at_the_end(
    ferry: Ferry,
    config: Path,
    outcomes: dict[str, FerryError | Creation],
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes |= {"west->east": UNREACHABLE, "east->west": DENIED, "west->north": CREATION}

    # The worst of them, not that of differences.
    assert ferry("plan", "--config", config) == AccessDenied.exit_code

    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "west->north: topics to create: 1"
    assert said.err.splitlines() == [
        "ERROR: west->east: No broker answers.",
        "ERROR: east->west: No right.",
        "ERROR: 2 of 3 flows failed: west->east, east->west",
    ]


@pytest.mark.parametrize(
    ("arguments", "planned"),
    [
        ([], ["west->east", "west->north", "east->west"]),
        (["--clusters", "north"], ["west->north"]),
        (["--clusters", "east", "west"], ["west->east", "east->west"]),
        (["--clusters", "east", "--clusters", "west"], ["west->east", "east->west"]),
        (["--clusters", "east,west"], ["west->east", "east->west"]),
        (["--flow", "east->west"], ["east->west"]),
    ],
)
def test_json_of_several_flows_is_a_list_and_of_one_its_plan(
    ferry: Ferry,
    config: Path,
    outcomes: object,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    planned: list[str],
) -> None:
    assert ferry("plan", "--config", config, "--json", *arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert isinstance(told, list) == (len(planned) > 1)
    plans = told if isinstance(told, list) else [told]
    assert [plan["flow"] for plan in plans] == planned


def test_json_holds_the_plans_of_flows_that_did_not_fail(
    ferry: Ferry,
    config: Path,
    outcomes: dict[str, FerryError | Creation],
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes |= {"west->east": UNREACHABLE, "west->north": CREATION}
    assert ferry("plan", "--config", config, "--json") == ClusterUnreachable.exit_code
    plans = json.loads(capsys.readouterr().out)
    assert {plan["flow"]: plan["differences"] for plan in plans} == {
        "east->west": {},
        "west->north": {"topics_to_create": 1},
    }


@pytest.mark.parametrize(
    ("outcome", "status"), [(None, 0), (CREATION, 2), (UNREACHABLE, 3), (DENIED, 4)]
)
def test_a_single_flows_outcome_is_the_exit_status(
    ferry: Ferry,
    config: Path,
    outcomes: dict[str, FerryError | Creation],
    capsys: pytest.CaptureFixture[str],
    outcome: FerryError | Creation | None,
    status: int,
) -> None:
    if outcome:
        outcomes["west->north"] = outcome
    assert ferry("plan", "--config", config, "--flow", "west->north") == status
    said = capsys.readouterr().err
    assert said == (f"ERROR: {outcome}\n" if isinstance(outcome, FerryError) else "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plna"], "plna"),
        (["plan"], "--config"),
        (["plan", "--config", "{config}", "--loud"], "--loud"),
        (["plan", "--config", "{config}", "--clusters", "south"], "south"),
        (["plan", "--config", "{config}", "--flow", "east->north"], "east->north"),
        (["plan", "--config", "{config}", "--flow", "a->b", "--clusters", "b"], "either"),
        (["repair", "--config", "{config}"], "several flows"),
    ],
)
def test_a_wrong_command_is_never_taken_for_a_plan_with_differences(
    ferry: Ferry,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    assert ferry(*(argument.format(config=config) for argument in arguments)) == 9
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("plan --clusters a b --json", "plan --clusters a --clusters b --json"),
        ("plan --clusters a", "plan --clusters a"),
        ("plan --clusters=a b", "plan --clusters=a b"),
        ("plan --clusters a --flow b c", "plan --clusters a --flow b c"),
        ("plan --clusters --json", "plan --clusters --json"),
    ],
)
def test_several_clusters_may_follow_one_option(written: str, means: str) -> None:
    assert " ".join(_one_value_each(written.split())) == means


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--rate-limit", "8MB"), "and not '8MB'. Did you mean '8MiB'?"),
        (("run", "--rate-limit=fast"), "and not 'fast'"),
        (("takeover", "--from", "mm3"), "'--from': 'mm3' is not one of 'mm2', 'mm1'"),
        (("plan", "--timeout", "0"), "must be at least 1, and not '0'"),
        (
            ("where", "--topic", "a", "--offset", "1", "--partition", "x"),
            "Invalid value for '--partition': must be a whole number, and not 'x'",
        ),
        (
            ("check", "--config", "mm3.properties"),
            "No such file or directory. Did you mean 'mm2.properties'?",
        ),
        (("check", "--config", "mm2.yml"), "Did you mean 'mm2.properties'?"),
    ],
)
def test_a_wrong_word_is_shown_with_what_is_right(
    config: Path,
    ferry: Ferry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(config.parent)
    assert ferry(*arguments) == 9
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_reader_that_has_enough_gets_no_trace(config: Path) -> None:
    import subprocess  # noqa: PLC0415

    command = f"{sys.executable} -m kafka_ferry rights --config {config} | (exec <&-; sleep 2)"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert shown.stderr == ""
