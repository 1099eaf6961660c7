"""Which groups that fail over lack some offsets of a partition that they have not read."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def most_lacking(
    offsets: Mapping[str, int], spans: Collection[tuple[int, int]]
) -> tuple[str, int] | None:
    """The group that has read least of some offsets, and how many it lacks; None where each has read all of them.

    Args:
        offsets: by group, where it goes on.
        spans: the offsets ``[start, end)``.

    Returns:
        Its name, followed by how many other groups lack any.
    """
    lacking = {
        name: sum(max(0, end - max(start, offset)) for start, end in spans)
        for name, offset in offsets.items()
    }
    lacking = {name: records for name, records in lacking.items() if records}
    if not lacking:
        return None
    name, most = max(lacking.items(), key=lambda reader: reader[1])
    return (f"{name} (and {len(lacking) - 1} more)" if len(lacking) > 1 else name), most
