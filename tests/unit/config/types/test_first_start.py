import pytest

from kafka_ferry.config.types.first_start import first_start_text, read_first_start
from tests.unit.plan.builders import a_flow

DAY = 86_400_000
NOVEMBER = 1_793_491_200_000


@pytest.mark.parametrize(
    ("text", "kind", "ms", "name"),
    [
        ("earliest", "earliest", 0, ""),
        ("latest", "latest", 0, ""),
        ("2026-11-01", "moment", NOVEMBER, ""),
        ("2026-11-01T00:00Z", "moment", NOVEMBER, ""),
        ("2026-11-01T01:00:00+01:00", "moment", NOVEMBER, ""),
        ("2026-11-01 00:00:00.000+00", "moment", NOVEMBER, ""),
        ("-7d", "ago", 7 * DAY, ""),
        ("-90m", "ago", 90 * 60_000, ""),
        ("2 weeks", "ago", 14 * DAY, ""),
        ("P1DT12H", "ago", 36 * 3_600_000, ""),
        ("group=billing", "group", 0, "billing"),
        ("file=starts/of=mine.yaml", "file", 0, "starts/of=mine.yaml"),
    ],
)
def test_each_form_is_read(text: str, kind: str, ms: int, name: str) -> None:
    assert read_first_start(text) == (kind, ms, name)
    assert first_start_text(f" {text} ") == text


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "7d",
        "-7y",
        "-99999999999d",
        "group=",
        "file= ",
        "Earliest",
        "0 days",
        "20261101",
        "20261101T000000Z",
        "2026-W45-7",
        7,
        None,
        True,
    ],
)
def test_anything_else_is_refused_with_what_it_must_be(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be earliest, latest, a moment"):
        first_start_text(value)


def test_a_moment_with_colons_is_one_value_and_no_list_of_patterns() -> None:
    assert a_flow(topics_start="2026-11-01T00:00Z").topics_start.of("any") == "2026-11-01T00:00Z"
    listed = a_flow(topics_start="orders:latest, clicks.*:-7d").topics_start
    assert (listed.of("orders"), listed.of("clicks-eu"), listed.explicit_value("x")) == (
        "latest",
        "-7d",
        None,
    )
