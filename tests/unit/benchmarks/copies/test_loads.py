from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from benchmarks.copies.copiers import Job
from benchmarks.copies.loads import copies
from benchmarks.figures.process_tree import Usage
from benchmarks.figures.runs import Figures


@dataclass
class Copier:
    name: str
    log: list[str]

    def copy(self, job: Job) -> tuple[Figures, Usage]:
        self.log.append(f"{self.name} copies {job.alias}")
        return {"wall_s": 1.0}, Usage(0.0, 0, (), (), 0.0)


@dataclass
class Load:
    name: str
    copiers: list[Copier]
    cleaned: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        raise AssertionError("that is for the caller")

    def job(self, copier: Copier, repetition: int) -> Job:
        return Job(self.name, f"{self.name} {repetition}", 1, 1)

    def clean(self, job: Job) -> None:
        self.cleaned.append(job.alias)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Each copy takes ten seconds, or rather the pause before it."""
    found = SimpleNamespace(now=0)
    monkeypatch.setattr(
        "benchmarks.copies.loads.time", SimpleNamespace(monotonic=lambda: found.now)
    )

    def sync() -> None:
        found.now += 10

    monkeypatch.setattr("benchmarks.copies.loads.os", SimpleNamespace(sync=sync))
    return found


def test_copiers_take_turns() -> None:
    log: list[str] = []
    load = Load("large", [Copier("this", log), Copier("other", log)])
    runs = list(copies([load], repeat=2))
    assert log == [
        "this copies large 1",
        "other copies large 1",
        "this copies large 2",
        "other copies large 2",
    ]
    assert [(run.copier, run.repetition) for run in runs] == [
        *(("this", 1), ("other", 1)),
        *(("this", 2), ("other", 2)),
    ]
    assert load.cleaned == ["large 1", "large 1", "large 2", "large 2"]


@pytest.mark.parametrize(("limit", "times"), [(0, 1), (19, 1), (20, 2), (39, 3)])
def test_it_is_repeated_as_often_as_the_time_allows_but_once_at_least(
    limit: int, times: int
) -> None:
    load = Load("large", [Copier("this", [])])
    assert len(list(copies([load], repeat=0, limit_s=limit))) == times
