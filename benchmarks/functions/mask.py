"""A mask as a Python function, as ``benchmarks.transforms`` measures it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from kafka_ferry.transform import TransformRecord


def email(record: TransformRecord, _: Mapping[str, str]) -> TransformRecord:
    """The record with the digest of its value's email."""
    fields = json.loads(record.value or b"{}")
    fields["email"] = hashlib.sha256(fields["email"].encode()).hexdigest()
    return replace(record, value=json.dumps(fields).encode())
