"""What a flow's file names may be reached (``permissions``), by its options' types (``OptionReach``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_ferry.config.client.config_providers import Providers
from kafka_ferry.config.client.property_names import AIRFLOW_CONNECTION
from kafka_ferry.config.options.base import OptionReach
from kafka_ferry.config.permissions import (
    CONNECTIONS,
    HOSTS,
    allowed_names,
    code_problems,
    module_problems,
    place_problems,
    property_problems,
    secret_file_problems,
    state_problems,
)
from kafka_ferry.config.store_address import store_hosts, store_options
from kafka_ferry.config.types.first_start import read_first_start
from kafka_ferry.config.types.home import at_home
from kafka_ferry.config.types.problems import Problem, config_error

if TYPE_CHECKING:
    from kafka_ferry.config.flow import Flow
    from kafka_ferry.config.types.per_topic import PerTopic

# To look where each is takes a third of a millisecond.
_MOST_FILES: Final = 100


def check_flow(flow: Flow) -> None:
    """Does nothing where all that a flow's file names may be reached.

    Raises:
        ConfigError: something may not; it says who can allow it.
    """
    problems = [*_option_problems(flow)]
    for cluster in (flow.source, flow.target):
        id_problems = _connection_ids(AIRFLOW_CONNECTION, cluster.airflow_connection or "")
        # What a reference stands for is looked at once it is resolved.
        refers = Providers.declare(dict(cluster.providers), []).refers
        plain = {key: value for key, value in cluster.properties.items() if not refers(value)}
        for problem in (*property_problems(plain), *id_problems):
            problems.append(problem._replace(key=f"{cluster.alias}: {problem.key}"))
    if problems:
        raise config_error(flow.file, *problems)


def _option_problems(flow: Flow) -> Iterator[Problem]:
    for name, option in type(flow).model_fields.items():
        reach = next(
            (item.thing for item in option.metadata if isinstance(item, OptionReach)), None
        )
        value, key = getattr(flow, name), str(option.alias)
        if reach == "secret-file" and value:
            yield from secret_file_problems(key, at_home(value, flow.file))
        elif reach == "data-file":
            files = {*_named_files(value, flow.file)}
            if len(files) > _MOST_FILES:
                yield Problem(key, f"may name {_MOST_FILES} files, and names {len(files):,}")
                continue
            for file in files:
                # What the operator keeps beside code may be read too.
                if [*place_problems(key, file)]:
                    yield from secret_file_problems(key, file)
        elif reach == "code" and value:
            if name == "replication_policy_class":
                yield from module_problems(key, value)
            else:
                yield from code_problems(key, at_home(value, flow.file))
        elif reach == "store":
            yield from _store_problems(key, value)
            if value and "://" not in value:
                yield from state_problems(key, at_home(value, flow.file))
        elif reach == "connection" and value != option.default:
            ids = [value] if isinstance(value, str) else [item.connection for item in value]
            yield from _connection_ids(key, *ids)


def _store_problems(key: str, location: str) -> Iterator[Problem]:
    """Where the machine's own login at an object store would go elsewhere, or with less protection."""
    patterns = allowed_names(HOSTS)
    if patterns is None:
        return
    hosts, options = store_hosts(location), store_options(location)
    if foreign := [it for it in hosts if not patterns.fullmatch(it)]:
        reason = f"the machine's login at this store may not go to {', '.join(foreign)}"
        yield Problem(key, reason, f"Who runs Airflow can allow it in {HOSTS}.")
    if options and not hosts:
        reason = f"has {', '.join(options)} only with an address that {HOSTS} allows"
        yield Problem(key, reason, "Leave it out.")


def _connection_ids(key: str, *ids: str) -> Iterator[Problem]:
    patterns = allowed_names(CONNECTIONS)
    if patterns is None:
        return
    for name in ids:
        if name and not patterns.fullmatch(name):
            allows = os.environ[CONNECTIONS] or "nothing"
            reason = f"the connection {name!r} may not be named here: {CONNECTIONS} allows {allows}"
            yield Problem(key, reason, f"Who runs Airflow can allow it in {CONNECTIONS}.")


def _named_files(values: PerTopic[str], flow_file: str) -> Iterator[Path]:
    for value in (values.default, *(rule_value for _, rule_value in values.rules)):
        start = read_first_start(value) if value else None
        if start and start.kind == "file":
            yield at_home(start.name, flow_file)
