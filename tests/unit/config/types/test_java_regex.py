"""Java's regular expressions here: the same answer, or refused by name. The answers are a JVM's."""

from __future__ import annotations

import pytest
import regex

from kafka_ferry.config.types.java_regex import JavaSyntaxError, NotTranslated, translate_regex
from kafka_ferry.config.types.name_filter import PatternError, compile_patterns
from tests.support.java.patterns import ANSWERS, REFUSED


def matches_here(pattern: str, text: str) -> bool | None:
    """Whether the text matches; None where the pattern is none in Java."""
    try:
        compiled = regex.compile(translate_regex(pattern), regex.VERSION1)
    except JavaSyntaxError:
        return None
    return compiled.fullmatch(text) is not None


def test_a_pattern_answers_as_in_java() -> None:
    here = [(pattern, text, matches_here(pattern, text)) for pattern, text, _ in ANSWERS]
    assert here == [*ANSWERS]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_only_java_knows_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(NotTranslated):
        translate_regex(pattern)
    with pytest.raises(PatternError, match="which Java knows and Kafka Ferry does not"):
        compile_patterns([pattern])


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        (r"(?m)^a$", r"has the flag (?m)"),
        (r"\p{InGreek}", r"has \p{InGreek}"),
        (r"[a-z&&[^b]c]", "has an intersection of classes and characters side by side"),
        (r"a\X", r"has \X"),
        ("((a{9999}){9999})", "has repetitions of more than 100,000 characters in all"),
        ("((a{9,}){999}){999}", "has repetitions of more than 100,000 characters in all"),
        ("([a-z]{1,400}){1,400}", "has repetitions of more than 100,000 characters in all"),
        ("a{9999}" * 20, "has repetitions of more than 100,000 characters in all"),
        ("(" * 51 + "a" + ")" * 51, "has more than 50 groups within each other"),
        ("[" * 60 + "a" + "]" * 60, "has more than 50 classes within each other"),
    ],
)
def test_the_refusal_names_pattern_and_reason(pattern: str, named: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_patterns(["orders", pattern])
    assert repr(pattern) in str(caught.value)
    assert named in str(caught.value)


@pytest.mark.parametrize("opened", ["(", "(?:", "[", "(?=", "[^a&&["])
def test_no_depth_takes_its_reader_down(opened: str) -> None:
    with pytest.raises(PatternError):
        compile_patterns([opened * 100_000])


def test_groups_keep_their_numbers() -> None:
    found = compile_patterns([r"(?i)CN=(?<name>[^,]+)(,OU=(\w+))?.*"]).fullmatch("cn=anna,ou=x,o=y")
    assert (found[1], found[2], found[3]) == ("anna", ",ou=x", "x")
