"""Which groups that fail over lack some offsets of a partition that they have not read."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def most_lacking(
    unread: Mapping[str, tuple[int, int]], spans: Collection[tuple[int, int]]
) -> tuple[str, int] | None:
    """The group that lacks most of some offsets, and how many it lacks; None where none lacks any.

    Args:
        unread: by group, the offsets ``[start, end)`` that it lacks if they are among ``spans``.
        spans: the offsets ``[start, end)``.

    Returns:
        Its name, followed by how many other groups lack any.
    """
    lacking = {
        name: sum(max(0, min(end, last) - max(start, first)) for start, end in spans)
        for name, (first, last) in unread.items()
    }
    lacking = {name: records for name, records in lacking.items() if records}
    if not lacking:
        return None
    name, most = max(lacking.items(), key=lambda reader: reader[1])
    return (f"{name} (and {len(lacking) - 1} more)" if len(lacking) > 1 else name), most
