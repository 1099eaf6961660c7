"""The replication policy of a flow: one of MirrorMaker 2's two, or a Python class of somebody's own."""

from __future__ import annotations

from importlib import import_module

from kafka_ferry.config import Flow
from kafka_ferry.errors import ConfigError
from kafka_ferry.plan.topics.replication_policy import POLICIES, Renamed, ReplicationPolicy

_KEY = "replication.policy.class"
_ADVICE = (
    "It must be a class that derives from kafka_ferry.plan.topics.replication_policy.ReplicationPolicy, named with its "
    "module, on the PYTHONPATH of whoever plans."
)


def policy_of(flow: Flow) -> ReplicationPolicy:
    """The flow's replication policy, with the names of ``topics.rename`` above it.

    A class of somebody's own is imported here: so when a flow is planned, never when it is read.

    Raises:
        ConfigError: there is no such class, or it is none that names topics.
    """
    own = "" if flow.replication_policy_internal_topic_separator_enabled else "."
    policy = _class(flow)
    try:
        made = policy(
            source_alias=flow.source.alias,
            separator=flow.replication_policy_separator,
            internal_separator=own,
        )
        made.configure(dict(flow.policy_settings))
    except Exception as error:
        name = flow.replication_policy_class
        raise _wrong(flow, f"{name} cannot be made: {error!r}") from error
    return Renamed(made, flow.topics_rename) if flow.topics_rename else made


def _class(flow: Flow) -> type[ReplicationPolicy]:
    name = str(flow.replication_policy_class)
    if name in POLICIES:
        return POLICIES[name]
    module_name, _, class_name = name.rpartition(".")
    try:
        module = import_module(module_name)
    except Exception as error:
        # Whatever the module does when it is imported, it is not for a traceback of ours to say.
        raise _wrong(flow, f"{module_name} cannot be imported: {error!r}") from error
    found = getattr(module, class_name, None)
    if found is None:
        raise _wrong(flow, f"{module_name} has no {class_name}")
    if not isinstance(found, type) or not issubclass(found, ReplicationPolicy):
        raise _wrong(flow, f"{name} is no replication policy")
    return found


def _wrong(flow: Flow, reason: str) -> ConfigError:
    return ConfigError(flow.file, _KEY, f"{reason}.", advice=_ADVICE)
