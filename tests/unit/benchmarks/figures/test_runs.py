import pytest
from benchmarks.figures.process_tree import Process, Usage
from benchmarks.figures.runs import COMPARED, LABELS, Copied, Figures, figures_of, medians, ratios

NOTHING = Usage(0.0, 0, (), (), 0.0)
MIB = 1 << 20


def copied(copier: str, repetition: int, figures: Figures, load: str = "large") -> Copied:
    return Copied(load, copier, repetition, figures, NOTHING)


def test_a_figure_is_the_median_of_its_load_and_copier() -> None:
    runs = [copied("this", n, {"wall_s": wall}) for n, wall in enumerate((9.0, 1.0, 2.0), 1)]
    runs += [copied("other", 1, {"wall_s": 50.0}), copied("this", 1, {"wall_s": 70.0}, "small")]
    assert medians(runs, "large", "this") == {"wall_s": 2.0}


def test_a_figure_that_only_some_runs_have_is_the_median_of_those() -> None:
    runs = [copied("this", 1, {"wall_s": 1.0}), copied("this", 2, {"wall_s": 3.0, "mb": 8.0})]
    assert medians(runs, "large", "this") == {"wall_s": 2.0, "mb": 8.0}


def test_ratios_are_those_of_the_medians() -> None:
    # The median of the single ratios would be 2.
    ours = [copied("this", n, {"cpu_s": cpu}) for n, cpu in enumerate((2.0, 8.0, 3.0), 1)]
    theirs = [copied("other", n, {"cpu_s": cpu}) for n, cpu in enumerate((1.0, 2.0, 6.0), 1)]
    runs = ours + theirs
    found = ratios(medians(runs, "large", "this"), medians(runs, "large", "other"))
    assert found == {"cpu_s": 1.5}


@pytest.mark.parametrize("theirs", [{}, {"wall_s": 0.0}])
def test_nothing_is_compared_with_what_is_not_known(theirs: Figures) -> None:
    assert ratios({"wall_s": 1.0}, theirs) == {}


def test_every_copy_tells_time_and_memory() -> None:
    processes = (
        Process("python", "driver", 300 * MIB),
        Process("java", "JVM", 400 * MIB),
        Process("python", "worker", 100 * MIB),
        Process("python", "worker", 200 * MIB),
    )
    figures = figures_of(Usage(12.5, 700 * MIB, processes, (), 0.0), 6.5)
    assert figures == {
        "wall_s": 6.5,
        "cpu_s": 12.5,
        "sum_of_peak_rss_mib": 1000,
        "peak_pss_mib": 700,
        "processes": 4,
        "driver_peak_rss_mib": 300,
        "jvm_peak_rss_mib": 400,
        "worker_peak_rss_mib": 200,
    }
    assert set(figures) <= set(LABELS)
    assert set(COMPARED) <= set(figures)


def test_the_json_has_all_that_the_medians_are_made_of() -> None:
    usage = Usage(1.0, 5, (Process("java", "JVM", 7),), (), 0.1)
    found = Copied("large", "this", 3, {"wall_s": 2.0}, usage).as_json()
    assert (found["load"], found["copier"], found["repetition"]) == ("large", "this", 3)
    assert found["figures"] == {"wall_s": 2.0}
    assert found["usage"]["processes"] == ({"name": "java", "kind": "JVM", "peak_rss": 7},)
