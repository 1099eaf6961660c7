"""What a flow's file says that is valid, and hardly meant: told, and not refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import regex

from kafka_ferry.config.client.assertion import FILES as ASSERTION_FILES
from kafka_ferry.config.client.jaas import JAAS
from kafka_ferry.config.client.property_names import without_role
from kafka_ferry.config.flow import Flow
from kafka_ferry.config.options.base import OptionReach
from kafka_ferry.config.types.home import at_home
from kafka_ferry.config.types.name_filter import star_expression
from kafka_ferry.config.types.per_topic import EVERY, PerTopic
from kafka_ferry.config.types.problems import Problem, did_you_mean
from kafka_ferry.config.types.topic_configs import read_topic_configs
from kafka_ferry.config.types.values import is_topic_name

TRANSFORM: Final = "transform"
# Every minute of some hours.
_EACH_MINUTE: Final = regex.compile(r"\* +(?<hours>\d[\d,-]*) .*")
_MINUTE_MS: Final = 60_000
_LEAST_BYTES: Final = 10_000
_STORES: Final = ("ssl.keystore.location", "ssl.truststore.location")
_LISTS: Final = (
    "topics",
    "topics_exclude",
    "topics_optional",
    "groups",
    "groups_exclude",
    "config_properties_exclude",
    "schemas_subjects",
)


def doubts(flow: Flow) -> Iterator[Problem]:
    """A doubt about each pattern that seems to be a shell's, each login that is never used, and empty lists."""
    for option, pattern in (*_lists(flow), *topic_patterns(flow)):
        if whole := star_expression(pattern):
            reason = f"{pattern!r} is a regular expression, in which '*' repeats one letter"
            yield Problem(option, reason, f"Write {whole!r} if it stands for any text.")
    for cluster in (flow.source, flow.target):
        protocol = cluster.properties.get("security.protocol", "")
        if protocol.upper() in ("PLAINTEXT", "SSL") and JAAS in cluster.properties:
            reason = f"is not used: security.protocol of {cluster.alias} is {protocol}"
            side = "source" if cluster is flow.source else "target"
            yield Problem(f"{side}.{JAAS}", reason, "A login needs SASL_SSL or SASL_PLAINTEXT.")
    if not flow.topics:
        yield Problem("topics", "is empty: nothing but heartbeats is copied")
    if not flow.groups and flow.sync_group_offsets_enabled:
        yield Problem("groups", "is empty: sync.group.offsets.enabled moves no group")


def file_doubts(flow: Flow) -> Iterator[Problem]:
    """``doubts``, and what a plan tells better or need not repeat each time."""
    yield from doubts(flow)
    yield from _missing_files(flow)
    schedule = flow.schedule or ""
    if every := _EACH_MINUTE.fullmatch(schedule):
        hours = every["hours"]
        is_one = hours.isdecimal()
        when = f"from {hours}:00 to {hours}:59" if is_one else f"of the hours {hours}"
        once = f"Write '0 {schedule[1:].strip()}' if once is meant."
        yield Problem("schedule", f"is due each minute {when}", once)
    set_options = flow.model_fields_set & {"groups", "groups_exclude", "sync_group_offsets_enabled"}
    if set_options and flow.groups and "sync_group_offsets_enabled" not in set_options:
        reason = "moves no group: sync.group.offsets.enabled is false by default"
        advice = "Set it to true to move them with each run, or to false if only checkpoints and a failover are meant."
        yield Problem("groups" if "groups" in set_options else "groups.exclude", reason, advice)
    if _date(flow.start_date) > datetime.now(UTC).date() + timedelta(days=1):
        yield Problem(
            "start.date", f"is {flow.start_date}: before that, the timetable starts no run"
        )
    for pattern, text in flow.topics_configs.as_mapping().items():
        kept = read_topic_configs(text).get("retention.ms", "")
        if kept.isdecimal() and int(kept) < _MINUTE_MS:
            reason = f"keeps records of {pattern} for {kept} milliseconds"
            yield Problem("topics.configs", reason, f"Write retention.ms: {kept}d for {kept} days.")
    if 0 < flow.retire_after_ms < _MINUTE_MS and flow.on_source_topic_deleted == "retire":
        reason = f"is {flow.retire_after_ms} milliseconds, after which a copy is deleted"
        yield Problem("retire.after.ms", reason, "A day is 86400000.")
    if 0 < flow.rate_limit_bytes < _LEAST_BYTES:
        reason = f"is {flow.rate_limit_bytes:,} bytes a second for the whole run"
        advice = f"Write {flow.rate_limit_bytes}MiB for as many mebibytes."
        yield Problem("rate.limit.bytes", reason, advice)
    if all(map(is_topic_name, flow.topics)):
        for option, name in topic_patterns(flow):
            if is_topic_name(name) and not flow.topic_filter.matches(name):
                near = did_you_mean(name, flow.topics)
                yield Problem(option, f"names {name}, which the flow does not copy", near)


def _date(start: date | datetime) -> date:
    return start.date() if isinstance(start, datetime) else start


def _missing_files(flow: Flow) -> Iterator[Problem]:
    """A doubt about each file that the flow needs and that this machine lacks."""
    for side, cluster in (("source", flow.source), ("target", flow.target)):
        for key, value in cluster.properties.items():
            name = without_role(key)
            if (name.endswith(_STORES) or name in ASSERTION_FILES) and "${" not in value:
                yield from _missing_file(f"{side}.{key}", Path(value))
    for name, option in type(flow).model_fields.items():
        value = getattr(flow, name)
        reach = next((item.thing for item in option.metadata if isinstance(item, OptionReach)), "")
        if reach == "secret-file" and value and "${" not in value:
            yield from _missing_file(option.alias or name, at_home(value, flow.file))


def _missing_file(key: str, file: Path) -> Iterator[Problem]:
    if not file.exists():
        yield Problem(key, f"{file} is not on this machine", "A run needs it.")


def topic_patterns(flow: Flow) -> Iterator[tuple[str, str]]:
    """The patterns of topics for which the file says something, each with its option."""
    for name, field in type(flow).model_fields.items():
        value = getattr(flow, name)
        if isinstance(value, PerTopic):
            for pattern in value.as_mapping():
                if pattern != EVERY:
                    yield field.alias or name, pattern
    for rule in flow.transform:
        for pattern in rule.topics:
            yield TRANSFORM, pattern


def _lists(flow: Flow) -> Iterator[tuple[str, str]]:
    for name in _LISTS:
        for pattern in getattr(flow, name):
            yield type(flow).model_fields[name].alias or name, pattern
