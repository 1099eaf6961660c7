"""No history ends in a false word: those that once did, others, and what is simulated beside what it stands for.

``make simulate`` looks for new ones. What it finds is to be mended, and keeps no other change from being tested.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any, Final

import pytest

from kafka_ferry.verify.expectations import judge
from tests import PROJECT
from tests.simulation import environment
from tests.simulation.__main__ import kept
from tests.simulation.case import Case
from tests.simulation.defects import DEFECTS, PRODUCT, Defect
from tests.simulation.history import simulate

# Each kind of fault is due in one of these or more.
SEEDS: Final = range(1380, 1430)
MORE_SEEDS: Final = range(1430, 1500)


def histories(seeds: range) -> subprocess.CompletedProcess[str]:
    """Run histories on one processor: another file's tests have the other one."""
    command = [sys.executable, "-m", "tests.simulation", "--jobs", "1", "--seconds", "600"]
    command += ["--first", str(seeds.start), "--histories", str(len(seeds))]
    return subprocess.run(
        command,
        cwd=PROJECT,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("case", "why"), [pytest.param(*it, id=it[1]) for it in kept()])
def test_what_once_went_wrong_does_not_again(case: Case, why: str) -> None:
    assert simulate(case).wrong is None, why


@pytest.mark.timeout(900)
def test_histories_show_nothing_wrong() -> None:
    done = histories(SEEDS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda it: it.name)
def test_each_defect_that_is_to_be_found_can_be_planted(defect: Defect) -> None:
    assert (PRODUCT / "kafka_ferry" / defect.module).read_text().count(defect.old) == 1


@pytest.mark.long
@pytest.mark.timeout(900)
def test_more_histories_show_nothing_wrong() -> None:
    done = histories(MORE_SEEDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_history_is_the_same_each_time_also_where_its_messages_pass_through_bytes() -> None:
    case = Case.of(5)
    assert simulate(case).trace == simulate(case).trace == simulate(case, encoded=True).trace


def test_checks_have_the_same_verdict_by_their_predicates_as_by_great_expectations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a history with foreign records and a cut log, whose tables are not all as they should be."""
    judged: list[tuple[Any, ...]] = []
    by_predicates = environment.judge_by_predicates

    def note(*given: Any) -> Any:
        judged.append((given, by_predicates(*given)))
        return judged[-1][1]

    monkeypatch.setattr(environment, "judge_by_predicates", note)
    case = Case.of(3, ("write foreign", "cut target", "move target start"))
    simulate(case)

    differing = [it for it in judged if not it[1].success][:1] + judged[:1]
    assert differing
    for (suites, rows, terms, verdict), simulated in differing:
        real = judge._judge(suites, rows, replace(terms, docs=None), verdict)
        assert [(it.key, it.success, it.severity) for it in real.expectations] == [
            (it.key, it.success, it.severity) for it in simulated.expectations
        ]
