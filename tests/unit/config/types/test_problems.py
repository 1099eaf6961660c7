"""What is wrong with a file is one error, which names each key."""

from __future__ import annotations

import pytest

from kafka_ferry.config.types.problems import (
    Problem,
    config_error,
    did_you_mean,
    no_text,
    unknown_target,
)


def test_one_problem_is_a_sentence() -> None:
    error = config_error("flow.yaml", Problem("writers", "must be a number"))
    assert (error.key, str(error)) == ("writers", "flow.yaml: writers: must be a number")
    advised = config_error("flow.yaml", Problem("writers", "must be a number", "Try 4."))
    assert str(advised) == "flow.yaml: writers: must be a number. Try 4."


def test_several_are_a_list_in_which_each_stands_once() -> None:
    problems = [Problem("a", "is required"), Problem("b", "is odd", "Try 4.")]
    error = config_error("flow.yaml", *problems, *problems)
    assert error.key == "a"
    assert str(error) == "flow.yaml: a: is required\nflow.yaml: b: is odd. Try 4."


def test_no_more_is_shown_than_a_person_reads() -> None:
    """Airflow stores it each time that it reads the file."""
    long = Problem("k" * 1_000_000, "r" * 1_000_000, "a" * 1_000_000)
    for problems in ((long,), (Problem("b", "is unknown"), long)):
        error = config_error("flow.yaml", *problems)
        assert len(str(error)) < 10_000
        assert error.problems == problems
    many = config_error("flow.yaml", *(Problem(f"key{n}", "is unknown") for n in range(1_000)))
    assert "key199" in str(many)
    assert str(many).splitlines()[-1].strip() == "And 800 more."


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("writer", "Did you mean 'writers'?"),
        ("Writers", "Did you mean 'writers'?"),
        ("x", ""),
        ("secondary.topics", "Did you mean 'topics'?"),
        ("run-03:04", "Did you mean 'run-03:04.29'?"),
    ],
)
def test_a_misspelt_name_has_a_suggestion_where_one_is_near(name: str, said: str) -> None:
    assert did_you_mean(name, ["writers", "topics", "run-03:15.04", "run-03:04.29"]) == said


@pytest.mark.parametrize(
    ("targets", "advice"),
    [
        (["east"], None),
        ([], None),
        (["east", "wets"], "Did you mean 'west'?"),
        (["mars"], "It has east, west."),
    ],
)
def test_a_cluster_that_the_file_does_not_have_is_told(
    targets: list[str], advice: str | None
) -> None:
    found = unknown_target(targets, ["east", "west"])
    assert (found.advice if found else None) == advice


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_a_value_that_no_program_takes_as_text_is_a_problem(value: str) -> None:
    assert no_text("key", "ä 😀") is None
    found = no_text("key", value)
    assert found
    assert "NUL or half of a surrogate pair" in found.reason
