"""Which logs a plan looks at before it believes where copying began; the target here answers nothing."""

import pytest

from kafka_ferry.model import LogBounds
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.runs.plan import first_copied
from kafka_ferry.runs.plan.first_copied import confirm
from tests.unit.plan.builders import KNOWN, P0, a_flow, a_remote, a_source, a_state


@pytest.mark.parametrize(
    ("remote", "configs", "options", "is_looked_at"),
    [
        ((0, 30), {}, {}, True),
        ((20, 30), {}, {}, False),
        ((0, 30), {"cleanup_policy": "compact"}, {}, False),
        ((0, 30), {}, {"offsets_start": 0}, False),
        ((0, 0), {}, {}, False),
    ],
    ids=["start would move", "is there", "cannot move", "is to be at 0", "empty"],
)
def test_only_a_log_whose_start_would_move_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
    remote: tuple[int, int],
    configs: dict[str, str],
    options: dict[str, object],
    is_looked_at: bool,
) -> None:
    looked: list[tuple[object, ...]] = []

    def look(_: object, *args: object) -> bool:
        looked.append(args)
        return True

    monkeypatch.setattr(first_copied, "_holds_copies", look)
    state = a_state(a_source(), target=[a_remote(**configs)], positions={P0: KNOWN})
    pair = Pair.of("orders", "primary.orders", state)

    believed = confirm(a_flow(**options), {P0: 20}, {P0: LogBounds(*remote)}, [pair])

    assert looked == [(P0, 0, 20)] * is_looked_at
    assert believed == ({} if is_looked_at else {P0: 20})
