"""What transform rules cost, beside an unopened copy and beside MirrorMaker 2 with its own Filter.

MirrorMaker 2 has no equal for a mask: its records are bytes, and Kafka's MaskField needs structs.

    python -m benchmarks.transforms --repeat 3
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks import report
from benchmarks.copies.clusters import Clusters, two_clusters
from benchmarks.copies.copiers import Copier, Ferry, MirrorMaker
from benchmarks.copies.loads import WholeTopic, copies
from benchmarks.copies.topics import MARK, BenchmarkTopic

_KEPT_IN = 2
_RULES: Mapping[str, Mapping[str, object]] = {
    "as they are": {},
    "filter by header": {"where": f"headers['{MARK}'] is null"},
    "filter by JSON field": {"format": {"value": "json"}, "where": "cast(value.id as int) % 2 = 1"},
    "mask of a JSON field": {
        "format": {"value": "json"},
        "set": {"value.email": "sha2(value.email, 256)"},
    },
    "mask of a JSON field by a Python function": {"function": "mask.email"},
}
_FUNCTIONS: Final = Path(__file__).parent / "functions"
_FILTER = {
    "transforms": "drop",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.drop.predicate": "marked",
    "predicates": "marked",
    "predicates.marked.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    "predicates.marked.name": MARK,
}


def _loads(clusters: Clusters, copiers: list[Copier], records: int, size: int) -> list[WholeTopic]:
    loads = []
    for name, rule in _RULES.items():
        slug = name.replace(" ", "-").lower()
        options = {
            "transform": [{"topics": [slug], **rule}],
            "transform.functions": str(_FUNCTIONS),
        }
        topic = BenchmarkTopic(slug, 8, size, fields=True, marked=_KEPT_IN)
        has_equal = "JSON" not in name
        loads.append(
            WholeTopic(
                name,
                copiers if has_equal else copiers[:1],
                clusters,
                topic,
                records,
                options if rule else {},
                _FILTER if rule else {},
                records // _KEPT_IN if "filter" in name else 0,
            )
        )
    return loads


def main(
    records: Annotated[int, typer.Option(help="Records of each load.")] = 1_000_000,
    size: Annotated[int, typer.Option(help="Bytes of a value.")] = 1_000,
    repeat: Annotated[int, typer.Option(help="Copies of each.")] = 3,
    mirrormaker2: Annotated[bool, typer.Option(help="Whether it takes part.")] = True,
) -> None:
    """Measure copies with and without rules."""
    with two_clusters() as clusters:
        copiers: list[Copier] = [Ferry("this", sys.executable, clusters)]
        copiers += [MirrorMaker(clusters)] if mirrormaker2 else []
        loads = _loads(clusters, copiers, records, size)
        for load in loads:
            load.prepare()
        report.show(report.told(copies(loads, repeat)), loads)


if __name__ == "__main__":
    typer.run(main)
