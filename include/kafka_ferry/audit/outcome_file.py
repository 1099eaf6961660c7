"""An outcome as a file of the audit's state, so that an audit continues where it was interrupted."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, fields
from typing import Any, Final

import numpy as np
import xxhash

from kafka_ferry.audit.comparison.entries import Entries, Unmatched
from kafka_ferry.audit.comparison.findings import Differing
from kafka_ferry.audit.comparison.walk import WalkState
from kafka_ferry.audit.outcome import PairOutcome
from kafka_ferry.audit.result import PairCounts
from kafka_ferry.audit.terms import AuditPair, LogExtent

VERSION: Final = 1
_DIGEST_BYTES: Final = 16
_COLUMNS: Final = tuple(field.name for field in fields(Entries))
_ENTRIES: Final = ("missing", "foreign")
_UNMATCHED: Final = ("source_unmatched", "target_unmatched")


def encode_outcome(outcome: PairOutcome) -> bytes:
    """The outcome as an archive of arrays (``numpy.savez``), one of which is JSON with all else.

    Before it is its digest (XXH3, 128 bits).
    """
    arrays: dict[str, Any] = {}
    values = {
        field.name: getattr(outcome, field.name)
        for field in fields(outcome)
        if field.name not in ("pair", "state", "counts", "differing", *_ENTRIES)
    }
    values |= {"version": VERSION, "pair": asdict(outcome.pair), "differing": outcome.differing}
    values["counts"] = asdict(outcome.counts)
    for name in _ENTRIES:
        _add(arrays, name, getattr(outcome, name))
    if state := outcome.state:
        values["state"] = {
            field.name: getattr(state, field.name)
            for field in fields(state)
            if field.name not in _UNMATCHED
        }
        for name in _UNMATCHED:
            unmatched: Unmatched = getattr(state, name)
            _add(arrays, name, unmatched.entries)
            arrays[f"{name}.gaps"] = unmatched.gaps
    arrays["told"] = np.frombuffer(json.dumps(values).encode(), np.uint8)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    return xxhash.xxh3_128_digest(packed.getvalue()) + packed.getvalue()


def decode_outcome(content: bytes, pair: AuditPair) -> PairOutcome | None:
    """Reads what ``encode_outcome`` wrote; None if it is damaged, or of another pair or version."""
    digest, packed = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if xxhash.xxh3_128_digest(packed) != digest:
        return None
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        values = json.loads(arrays["told"].tobytes())
        if values.pop("version") != VERSION or _pair(values.pop("pair")) != pair:
            return None
        state = values.pop("state", None)
        differing = [
            Differing(kind, source, target, tuple(what), partition)
            for kind, source, target, what, partition in values.pop("differing")
        ]
        entries: dict[str, Any] = {name: _entries(arrays, name) for name in _ENTRIES}
        walk = _state(arrays, state) if state else None
        counts = PairCounts(**values.pop("counts"))
        return PairOutcome(pair, walk, counts=counts, differing=differing, **entries, **values)


def _state(arrays: Any, values: dict[str, Any]) -> WalkState:
    unmatched: dict[str, Any] = {
        name: Unmatched(_entries(arrays, name), arrays[f"{name}.gaps"]) for name in _UNMATCHED
    }
    return WalkState(**values, **unmatched)


def _pair(values: dict[str, Any]) -> AuditPair:
    extents: dict[str, Any] = {side: LogExtent(**values.pop(side)) for side in ("source", "target")}
    return AuditPair(**values, **extents)


def _add(arrays: dict[str, Any], name: str, entries: Entries) -> None:
    for column in _COLUMNS:
        arrays[f"{name}.{column}"] = getattr(entries, column)


def _entries(arrays: Any, name: str) -> Entries:
    return Entries(*(arrays[f"{name}.{column}"] for column in _COLUMNS))
