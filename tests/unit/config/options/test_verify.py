"""How strict the proof is, as files say it."""

import pytest
from pydantic import ValidationError

from kafka_ferry.config.options.verify import VerifyOptions


def of(**options: object) -> VerifyOptions:
    return VerifyOptions.model_validate(
        {name.replace("_", "."): it for name, it in options.items()}
    )


def test_checks_weigh_as_usual_and_reports_are_kept_for_three_months() -> None:
    usual = of()
    assert usual.verify_severity == ()
    assert usual.verify_expectations == "include/expectations"
    assert (usual.reports_keep_days, usual.reports_keep_runs) == (90, 1000)


@pytest.mark.parametrize(
    "given",
    [{"drift": "critical", "topic-gone": "info"}, " drift : critical, topic-gone:info"],
)
def test_severities_are_a_mapping_or_text(given: object) -> None:
    assert of(verify_severity=given).verify_severity == (
        ("drift", "critical"),
        ("topic-gone", "info"),
    )


def test_severities_come_back_from_what_is_stored() -> None:
    chosen = of(verify_severity={"lost": "critical"})
    assert VerifyOptions.model_validate(chosen.model_dump(by_alias=True)) == chosen


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"drif": "critical"}, "names 'drif', which is not a check. Did you mean 'drift'?"),
        ({"xyz": "critical"}, "They are accounted, "),
        ({"drift": "bad"}, "gives 'drift' 'bad': must be critical, warning or info"),
        ("drift", "gives 'drift' '': must be critical, warning or info"),
        ("drift:info, drift:info", "names 'drift' twice"),
        (7, "must be a mapping of checks to critical, warning or info"),
    ],
)
def test_what_is_no_severity_is_named(given: object, says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        of(verify_severity=given)
    assert says in str(caught.value)


@pytest.mark.parametrize("option", ["reports_keep_days", "reports_keep_runs"])
def test_only_minus_one_is_for_ever(option: str) -> None:
    assert getattr(of(**{option: -1}), option) == -1
    with pytest.raises(ValidationError):
        of(**{option: -2})
