"""MirrorMaker 2's topic filter; each expected match was also tried in Java 17."""

import pickle
import time

import pytest

from kafka_ferry.config import NameFilter
from kafka_ferry.config.types.name_filter import (
    PatternError,
    checked_patterns,
    compile_patterns,
    split_list,
    star_expression,
)
from kafka_ferry.errors import ConfigError, InputError


@pytest.mark.parametrize(
    ("include", "exclude", "topic", "copied"),
    [
        (["orders"], [], "orders", True),
        (["orders"], [], "orders2", False),  # the whole name
        (["orders"], [], "my-orders", False),
        (["a.b"], [], "axb", True),  # a name is an expression
        (["a", "b"], [], "b", True),
        ([], [], "orders", False),  # an empty list matches nothing
        ([".*"], ["orders"], "orders", False),  # exclude wins
        ([".*"], ["orders"], "orders2", True),
        (["orders"], [".*"], "orders", False),
        ([".*"], [r"mm2.*\.internal", r".*\.replica", "__.*"], "mm2-x.internal", False),
        ([".*"], [r"mm2.*\.internal", r".*\.replica", "__.*"], "x.internal", True),
        (["^orders$"], [], "orders", True),
        (["(a", "b)"], [], "b", True),  # joined before it is compiled, as in Java
        (["(?i)orders", "payments"], [], "PAYMENTS", True),
        (["orders", "(?i)payments"], [], "ORDERS", False),
    ],
)
def test_a_topic_is_copied_if_its_whole_name_is_included_and_not_excluded(
    include: list[str], exclude: list[str], topic: str, copied: bool
) -> None:
    topics = NameFilter(include, exclude)
    assert topics.matches(topic) is copied
    assert (topics.why_not(topic) is None) is copied


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"\p{Alpha}+", "orders", "o1"),
        (r"\p{Lower}\p{Alnum}*+", "o1", "O1"),
        (r"[a-z&&[^b]]+", "acd", "abc"),
        (r"[a-c[x-z]]+", "axz", "d"),
        (r"[\w&&[^\d]]+", "a_b", "a1"),
        (r"a++b", "aab", "aa"),
        (r"(?>ab|a)c", "abc", "ab"),
        (r"\Qa.b\E.*", "a.b-c", "axb"),
        (r"(?<n>a)\k<n>b", "aab", "ab"),
        (r"(?!secret).*", "orders", "secret-orders"),
        (r"[{]?a{2,}", "aaa", "a"),
        (r"(?-i)a", "a", "A"),
    ],
)
def test_patterns_mean_what_they_mean_in_java(pattern: str, yes: str, no: str) -> None:
    topics = NameFilter([pattern], [])
    assert topics.matches(yes)
    assert not topics.matches(no)


@pytest.mark.parametrize(
    "pattern", ["*", "*.x", "[", "(a", "a{", "(?:ab){e<=1}", r"\p{Nope}", "a{,2}"]
)
def test_a_pattern_that_java_refuses_is_an_error_with_file_and_key(pattern: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NameFilter(["orders", pattern], [], file="flow.yaml")
    assert (caught.value.file, caught.value.key) == ("flow.yaml", "topics")
    assert repr(pattern) in caught.value.reason


def test_a_bad_pattern_to_exclude_names_that_option() -> None:
    with pytest.raises(ConfigError) as caught:
        NameFilter([".*"], ["["], file="f", exclude_key="a->b.topics.exclude")
    assert caught.value.key == "a->b.topics.exclude"


def test_a_glob_is_told_apart_from_an_expression() -> None:
    with pytest.raises(ConfigError, match=r"any text is '\.\*'"):
        NameFilter(["*"], [])


def test_the_reason_names_the_pattern_that_excludes_the_topic() -> None:
    topics = NameFilter(["orders.*"], [r".*\.replica", "__.*"])
    assert topics.why_not("orders.replica") == r"excluded by '.*\.replica'"
    assert topics.why_not("payments") == "matched by no pattern of 'orders.*'"
    assert NameFilter([], []).why_not("a") == "matched by no pattern of an empty list"
    many = NameFilter([f"t{number}" for number in range(30)], [])
    assert many.why_not("a") == "matched by no pattern of 't0', 't1', 't2', 't3', 't4' and 25 more"


@pytest.mark.parametrize(
    ("text", "items"),
    [("a, b ,c", ("a", "b", "c")), ("a", ("a",)), ("", ()), (" , ", ()), ("a,,b", ("a", "b"))],
)
def test_lists_in_text_are_split_at_commas_and_trimmed(text: str, items: tuple[str, ...]) -> None:
    assert split_list(text) == items
    assert NameFilter(text, "").include == items


def test_a_pattern_of_a_real_list_may_hold_a_comma() -> None:
    assert NameFilter(["a{1,2}"], []).matches("aa")


def test_filters_are_values_that_travel_between_processes() -> None:
    topics = NameFilter(["a.*"], ["ab"])
    assert topics == NameFilter(("a.*",), ("ab",))
    assert pickle.loads(pickle.dumps(topics)).matches("aa")


def test_a_groups_id_is_any_text() -> None:
    name = "app\nof\u2028two\rlines"
    groups = NameFilter([".*"], ["left[.]out.*"], any_text=True)

    assert groups.matches(name)
    assert not groups.matches(f"left.out{name}")
    assert groups.why_not(f"left.out{name}") == "excluded by 'left[.]out.*'"
    # As in Java, and in MirrorMaker 2.
    assert not NameFilter([".*"], []).matches(name)


def test_an_invalid_pattern_of_a_group_is_quoted_as_the_file_has_it() -> None:
    with pytest.raises(ConfigError, match=r"'\*a' is not a valid regular expression"):
        NameFilter(["*a"], [], any_text=True)


@pytest.mark.parametrize("pattern", ["(.*a){12}b", "(team.*a)+(.*a)+(.*a)+(.*a)+z"])
def test_a_pattern_that_takes_too_long_for_many_names_is_refused(pattern: str) -> None:
    names = [f"team-{number}.orders-{'a' * 60}" for number in range(20_000)]
    slow = NameFilter([pattern], [])
    began = time.process_time()
    with pytest.raises(InputError, match=r"takes too long for names such as 'team-\d+") as raised:
        any(map(slow.matches, names))
    assert time.process_time() - began < 6
    assert raised.value.exit_code == 9


def test_an_id_that_a_pattern_takes_too_long_for_is_left_out_alone() -> None:
    slow = [f"{'-' * 16_000}{number}" for number in range(5)]
    for groups in (
        NameFilter([".*-.*-app"], [], any_text=True),
        NameFilter([".*"], [".*-.*-test"], any_text=True),
    ):
        assert [it for it in (*slow, "my-own-app") if groups.matches(it)] == ["my-own-app"]
        assert groups.is_too_slow(slow[0])
        assert not groups.is_too_slow("my-own-app")
        assert groups.why_not(slow[0]) == "a pattern takes too long for its id"


def test_other_patterns_take_many_names() -> None:
    names = [f"team-{number % 97}.orders-{number}" for number in range(100_000)]
    listed = NameFilter([f"team-{number}[.].*-orders" for number in range(50)] + ["team-.*"], [])
    assert all(map(listed.matches, names))


@pytest.mark.parametrize("item", ["a.*", "(a|b)", "name[0-9]"])
def test_patterns_that_take_long_to_compile_are_refused_before_that(item: str) -> None:
    began = time.process_time()
    with pytest.raises(PatternError, match="take too long to compile: shorten them to 100,000"):
        compile_patterns([item] * (100_001 // len(item) + 1))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("item", ["$", r"\b", r"\R"])
def test_so_are_patterns_that_stand_for_longer_ones(item: str) -> None:
    """Fifty thousand ends of words would take minutes."""
    began = time.process_time()
    with pytest.raises(PatternError, match="take too long to compile together"):
        compile_patterns([item * (99_000 // len(item))])
    assert time.process_time() - began < 3


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_set_without_an_end_is_refused_at_once(end: str) -> None:
    began = time.process_time()
    with pytest.raises(PatternError):
        checked_patterns(("[" * 90_000 + end,))
    assert not star_expression("[" * 90_000 + end)
    assert time.process_time() - began < 5


def test_ten_thousand_names_are_no_such_patterns() -> None:
    assert compile_patterns([f"team-{n:05d}.orders-and-payments" for n in range(10_000)])


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ('"orders"', "holds quotes, which are part of the value here: leave them out, 'orders'"),
        ("/orders/", "holds '/', as no topic's name does: an expression stands without slashes"),
        ("order%", "any text is '.*', 'order.*'"),
        ("a/b", "holds '/', as no topic's name does"),
        ("kafka-3:9092", "holds ':', as no topic's name does"),
        (
            "!a.b",
            "holds '!', as no topic's name does: what is to be left out stands in the option's exclude list, 'a.b'",
        ),
        (r"a\/b", "holds '/'"),
        (
            "orders, customers",
            "each name is an entry of its own, or a line of a form, 'orders', 'customers'",
        ),
        ("orders customers", "put a comma between names, 'orders, customers', or each on a line"),
    ],
)
def test_a_pattern_that_no_topic_can_match_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(PatternError) as caught:
        checked_patterns([pattern])
    assert said in str(caught.value)


@pytest.mark.parametrize("pattern", ["[^/]+", "a|b/c", "(?!a/b).*", "a/?b", r"\Qa.b\E", "order*"])
def test_a_pattern_that_a_topic_may_match_is_not(pattern: str) -> None:
    checked_patterns([pattern])


def test_the_ids_of_groups_may_have_any_character() -> None:
    checked_patterns(["a/b", "50%"], any_text=True)


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [("order*", "order.*"), ("a-*-z*", "a-.*-z.*"), ("order.*", ""), ("[a-z]*", ""), (r"\d*", "")],
)
def test_a_shells_star_is_seen(pattern: str, whole: str) -> None:
    assert star_expression(pattern) == whole
