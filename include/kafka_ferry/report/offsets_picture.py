"""The picture of a flow's source offsets as boxes of an SVG, for the report page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafka_ferry.batches import Reason
from kafka_ferry.report.offsets import UNACCOUNTED, OffsetsBar

WIDTH: Final = 960
HEIGHT: Final = 130
COPIED: Final = "copied"
_OTHER: Final = "other"
_TOP: Final = 24
# What was lost is never too thin to be seen.
_LEAST: Final = 2.0
_WIDEST: Final = 16.0
_ORDER: Final = (COPIED, Reason.LOST, UNACCOUNTED, *(it for it in Reason if it != Reason.LOST))


class Box(NamedTuple):
    """A part of a bar.

    Attributes:
        part: ``copied`` or a reason.
        x: where it begins, as ``y``, ``width`` and ``height`` in units of the picture.
        title: what it is, in words.
    """

    part: str
    x: float
    y: float
    width: float
    height: float
    title: str


class Sign(NamedTuple):
    """A sign above a bar: ``!`` for what was lost, ``↶`` for a truncated log, ``B`` for a backfill."""

    text: str
    x: float
    y: float


class Picture(NamedTuple):
    """A bar for each run, or each few of them.

    Attributes:
        boxes: the parts of the bars.
        signs: what is above them.
        parts: the parts that it has, in their order.
        most: the number of offsets of the tallest bar.
    """

    boxes: tuple[Box, ...]
    signs: tuple[Sign, ...]
    parts: tuple[str, ...]
    most: int


def picture(bars: Sequence[OffsetsBar], *, without_copied: bool = False) -> Picture:
    """The picture of the bars.

    Args:
        bars: the bars, by time.
        without_copied: whether it shows only offsets without a record, which are few as a rule.
    """
    parts = [_parts(bar, without_copied=without_copied) for bar in bars]
    most = max((sum(of.values()) for of in parts), default=0)
    slot = WIDTH / max(1, len(bars))
    boxes, signs = [], []
    for number, (bar, of) in enumerate(zip(bars, parts, strict=True)):
        middle, below = slot * (number + 0.5), 0
        width = min(_WIDEST, slot * 0.75)
        top = float(HEIGHT)
        for part, count in of.items():
            below += count
            top = HEIGHT - (HEIGHT - _TOP) * below / most
            height = (HEIGHT - _TOP) * count / most
            if part in (Reason.LOST, UNACCOUNTED):
                height = max(height, _LEAST)
            title = f"{_name(bar)}: {count:,} {part}"
            left = round(middle - width / 2, 1)
            boxes.append(Box(part, left, round(top, 1), round(width, 1), round(height, 1), title))
        for line, text in enumerate(_signs(bar)):
            signs.append(Sign(text, round(middle, 1), round(max(9.0, top - 3 - 10 * line), 1)))
    shown = {box.part for box in boxes}
    ordered = tuple(str(part) for part in (*_ORDER, _OTHER) if part in shown)
    return Picture(tuple(boxes), tuple(signs), ordered, most)


def _parts(bar: OffsetsBar, *, without_copied: bool) -> dict[str, int]:
    """The parts of a bar from below, without empty ones."""
    known = {str(part): bar.reasons.get(part, 0) for part in _ORDER}
    known[COPIED] = 0 if without_copied else bar.copied
    known[_OTHER] = sum(count for name, count in bar.reasons.items() if name not in known)
    return {part: count for part, count in known.items() if count > 0}


def _signs(bar: OffsetsBar) -> list[str]:
    signs = []
    if bar.lost or bar.reasons.get(UNACCOUNTED):
        signs.append("!")
    if bar.rewinds:
        signs.append("↶")
    if bar.backfill:
        signs.append("B")
    return signs


def _name(bar: OffsetsBar) -> str:
    kind = "backfill" if bar.backfill else "run"
    return f"{kind} {bar.run}" if bar.runs == 1 else f"{bar.runs} {kind}s up to {bar.run}"
