"""The secrets that a flow's rules use."""

from __future__ import annotations

from kafka_ferry.config import Flow
from kafka_ferry.config.options.transform import TRANSFORM_SECRETS


def look_up_secret(flow: Flow, name: str) -> str:
    """What ``secret(name)`` is in the flow's rules.

    Raises:
        ConfigError: its config provider does not have it.
    """
    reference = dict(flow.transform_secrets)[name]
    return flow.target.resolve_value(f"{TRANSFORM_SECRETS}.{name}", reference)
