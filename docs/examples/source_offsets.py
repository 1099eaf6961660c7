"""Turns offsets in a topic with translated offsets into those of its source, for kafka-consumer-groups.

    python source_offsets.py LEDGER TOPIC < offsets.csv

LEDGER is the folder ``ledger`` in the flow's state folder, as of ``ferry plan``; TOPIC is the topic
that the offsets are wanted for. Reads and writes lines of ``topic,partition,offset``, the offset
being the next one to read.
"""

from __future__ import annotations

import csv
import sys

import pyarrow.dataset as ds

COLUMNS = ["ledger_offset", "remote_topic", "remote_topic_id", "partition", "end", "segments"]

ledger, wanted_topic = sys.argv[1:]
rows = ds.dataset(ledger).to_table(columns=COLUMNS).sort_by("ledger_offset").to_pylist()
for topic, partition, text in csv.reader(sys.stdin):
    offset = int(text)
    ranges = [r for r in rows if (r["remote_topic"], r["partition"]) == (topic, int(partition))]
    if not ranges:
        sys.exit(f"The ledger has nothing of {topic}-{partition}.")
    # Of a topic that was recreated, the last one counts.
    ranges = [r for r in ranges if r["remote_topic_id"] == ranges[-1]["remote_topic_id"]]
    segments = [s for r in ranges for s in r["segments"] if offset < s["target"] + s["records"]]
    if segments:
        first = min(segments, key=lambda s: s["target"])
        source = first["source"] + max(0, offset - first["target"])
    else:
        source = ranges[-1]["end"]
    print(wanted_topic, partition, source, sep=",")
