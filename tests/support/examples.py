"""How many examples Hypothesis tries of a property: a fifth of them on a developer's machine, all in CI."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

_SHARE: Final = 1 if os.environ.get("CI") else 5


def examples(count: int) -> settings:
    """Try so many examples in CI.

    Brokers and Spark run beside the properties: how long an example takes says nothing.
    """
    return settings(max_examples=count // _SHARE, deadline=None)
