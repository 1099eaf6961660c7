"""How strict the proof is, and how long proofs are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, GetPydanticSchema
from pydantic_core import core_schema

from kafka_ferry.config.options.base import CodePath, Options
from kafka_ferry.config.options.schedule import Duration
from kafka_ferry.config.types.name_filter import split_list
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.config.types.values import Number

Severity = Literal["critical", "warning", "info"]
"""``critical``: if it is not true, the run fails; ``warning``: it is reported; ``info``: it is recorded."""

CHECKS: Final = (
    "accounted",
    "read",
    "counts",
    "digests",
    "transforms",
    "witness",
    "letters",
    "foreign",
    "offsets",
    "mapped",
    "ascending",
    "before-kept",
    "losses-named",
    "reasons",
    "source-gaps",
    "expired",
    "compacted",
    "lost",
    "evaluated-again",
    "dead-lettered",
    "cut-back",
    "topic-gone",
    "gaps",
    "overlaps",
    "positions",
    "beyond",
    "end-read",
    "before",
    "reach",
    "start",
    "source-kept",
    "covered",
    "described",
    "partitions",
    "identity",
    "configs",
    "drift",
    "placement",
    "groups",
    "groups-end",
)
"""The names of all checks of a run, in the order of their tables."""

ALWAYS_CRITICAL: Final = ("read", "end-read", "described")
"""The checks of whether something was looked at: what was not is never verified."""

EXPECTATIONS: Final = "include/expectations"
_SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)

Severities = tuple[tuple[str, Severity], ...]
"""Names of checks, each with its severity."""


def _severities(value: object) -> Severities:
    """Reads a file's mapping, or text such as ``drift:critical, expired:info``."""
    if isinstance(value, str):
        items = (item.partition(":") for item in split_list(value))
        pairs: Iterable[tuple[object, object]] = [
            (name.strip(), severity.strip()) for name, _, severity in items
        ]
    elif isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, tuple):
        pairs = value
    else:
        raise ValueError("must be a mapping of checks to critical, warning or info")
    chosen = tuple(_check(pairs))
    names = [name for name, _ in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"names {name!r} twice")
    return chosen


def _check(pairs: Iterable[tuple[object, object]]) -> Iterator[tuple[str, Severity]]:
    for name, severity in pairs:
        if name not in CHECKS:
            advice = did_you_mean(str(name), CHECKS) or f"They are {', '.join(CHECKS)}."
            raise ValueError(f"names {name!r}, which is not a check. {advice}")
        level = next((known for known in _SEVERITIES if known == severity), None)
        if level is None:
            raise ValueError(f"gives {name!r} {severity!r}: must be critical, warning or info")
        if name in ALWAYS_CRITICAL and level != "critical":
            raise ValueError(
                f"gives {name!r} {severity!r}: what was not looked at is never verified"
            )
        yield str(name), level


def _schema() -> GetPydanticSchema:
    severity = {"enum": list(_SEVERITIES)}
    mapping: dict[str, Any] = {
        "type": "object",
        "properties": dict.fromkeys(CHECKS, severity)
        | {name: {"const": "critical"} for name in ALWAYS_CRITICAL},
        "additionalProperties": False,
    }
    schema = core_schema.no_info_plain_validator_function(
        _severities, serialization=core_schema.plain_serializer_function_ser_schema(dict)
    )
    text = {"type": "string", "pattern": ":"}
    return GetPydanticSchema(lambda *_: schema, lambda *_: {"anyOf": [mapping, text]})


class VerifyOptions(Options):
    """The options of a flow about the verification of its copies, and how long its results are kept."""

    verify_severity: Annotated[Severities, _schema()] = Field(
        default=(),
        description="Checks of the verification with another severity than the default: a mapping from their "
        "names to critical (the run fails), warning (it is reported) or info (it is only recorded); "
        "in properties files, name:severity, name:severity.",
    )
    verify_everything_within: Duration = Field(
        default=None,
        description="Within which time, such as 30 days, all that the flow ever copied and the target still has is "
        "read back again: each run also reads the ranges whose proof is the oldest, as many as that takes. "
        "Without it, runs read back only what no run has proved.",
    )
    verify_transforms: Annotated[Number, Field(ge=0)] | Literal["all"] = Field(
        default=4,
        description="Of how many ranges that it verifies a run evaluates the transform rules again, from the "
        "source's records, to compare them with the target's: of each at most 10,000 offsets. all: all that it "
        "verifies, whole; 0: none.",
    )
    verify_expectations: CodePath = Field(
        default=EXPECTATIONS,
        min_length=1,
        description="Your own expectations: a file, or a folder with them in {source}_to_{target} or, "
        "for all flows, in all, with the suffix .yaml, .yml, .json or .py. "
        "Relative as state.dir is.",
    )
    reports_keep_days: Number = Field(
        default=90,
        ge=-1,
        description="How many days reports, Data Docs and a run's other files in the state folder "
        "are kept; -1 for ever. Files that an unfinished run needs and the ledger are never deleted.",
    )
    reports_keep_runs: Number = Field(
        default=1000,
        ge=-1,
        description="For how many runs, the newest ones, they are kept at most; -1 for any number.",
    )
