"""Defects that the simulation has to find: mends that are taken out again, and faults of other kinds.

Each is a text of the product that is replaced in a copy of it, under which histories run until one is wrong:
``python -m tests.simulation.defects --most 2000``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

PRODUCT: Final = Path(__file__).parents[2] / "include"


class Defect(NamedTuple):
    """A change to a module that makes the product wrong.

    Attributes:
        name: what it does.
        module: the file below ``include/kafka_ferry``.
        old: the text, which is there once.
        new: what stands there instead.
        only: the kinds of faults that it needs, to find it sooner; "" for all of them.
    """

    name: str
    module: str
    old: str
    new: str
    only: str = ""


# Each with the invariant of docs/concepts.md that it breaks.
DEFECTS: Final = (
    Defect(
        "an empty answer of the source is an empty log",
        "copy/source/fetch_answers.py",
        "next_batch(self._aside, node, source, cursor.at, cursor.identity)",
        "next_batch(self._aside, node, source, cursor.at, cursor.identity)._replace(start=cursor.range.end)",
        "empty remote read",
    ),
    Defect(
        "an empty answer ends the reading of a log",
        "wire/partitions/absence.py",
        "if not following and (fetched.is_at_end(offset) or has_batch(fetched, offset)):",
        "if not fetched.records:\n                return LogAnswer(fetched, max(offset, fetched.end))\n            "
        "if not following and has_batch(fetched, offset):",
        "empty remote read",
    ),
    Defect(
        "a cleaner explains what an interrupted attempt lacks",
        "copy/target/preserved/uncommitted_tail.py",
        "if gone and self._may_be_refused:",
        "if gone and self._may_be_refused and not self._is_compacted:",
        "kill task,kill driver,strand task",
    ),
    Defect(
        "a cleaner explains what lies after the log's end",
        "verify/reconciliation.py",
        "max(0, missing - recount.uncleaned)",
        "max(0, missing)",
        "cut target,compact",
    ),
    Defect(
        "a divergence ends where the source's epoch does",
        "batches/epochs.py",
        "return min(older[-1].end, epoch_end.end)",
        "return epoch_end.end",
        "return branch,move leader",
    ),
    Defect(
        "a log that goes past the ledger is not looked at",
        "runs/provenance/log_mismatches.py",
        "if loud and not is_settled(flow.target, ledger_topic(flow.source.alias)):",
        "if loud:",
        "cut internal",
    ),
    Defect(
        "a log that ends before the ledger is not looked at",
        "runs/provenance/log_mismatches.py",
        "if end.is_cut\n",
        "if False\n",
        "cut target",
    ),
    Defect(
        "a late task of another assignment writes",
        "copy/target/claims.py",
        "if newest and (newest.writers",
        "if False and (newest.writers",
        "late task,other writers,pause task,double task",
    ),
    Defect(
        "positions of a recreated topic count",
        "copy/copier.py",
        'if position and position.topic_id not in ("", range_.topic_id):',
        'if False and position and position.topic_id not in ("", range_.topic_id):',
        "recreate source",
    ),
    Defect(
        "writers are not fenced before the assignment changes",
        "runs/mirror/mirror.py",
        "before = {(it.writers, it.assignment) for it in last_runs(self._ledger, 2)} - {now}",
        "before: set[tuple[int, str]] = set()",
        "other writers,strand task",
    ),
    Defect(
        "lost positions are not restored",
        "runs/mirror/mirror.py",
        "if forgotten(self._ledger):",
        "if False:",
        "cut internal",
    ),
    Defect(
        "a transaction's end is not settled",
        "copy/target/transaction.py",
        "left = self._open.settle_commit(joined, positions)",
        "left = frozenset[TopicPartition]()",
        "lose leader",
    ),
    Defect(
        "a mend that goes on is aborted",
        "wire/transactions/endings.py",
        "if not (_is_going_on(state) and is_mend(state.transaction_timeout_ms)):",
        "if True:",
        "lose leader,kill task",
    ),
    Defect(
        "a batch follows a transaction that is not ended",
        "copy/target/transaction.py",
        "would share its outcome.\n        self.raise_if_void()",
        "would share its outcome.",
        "lose leader",
    ),
    Defect(
        "pending offsets are taken for committed ones",
        "wire/transactions/committed_offsets.py",
        "require_stable=stable)",
        "require_stable=False)",
        "lose leader,lose answer,kill task,lose result",
    ),
    Defect(
        "the last offset of a range is left out",
        "copy/source/fetch_answers.py",
        "elif cursor.at >= cursor.range.end and fetched.error",
        "elif cursor.at >= cursor.range.end - 1 and fetched.error",
    ),
    Defect(
        "aborted records are copied",
        "batches/aborted_transactions.py",
        "if header.producer_id in self._open:\n            return True",
        "if header.producer_id in self._open:\n            return False",
    ),
    Defect(
        "a list of aborted transactions is taken to be complete",
        "batches/aborted_transactions.py",
        "if self._fates and header.records and self._fates.may_be_unlisted(header.producer_id):",
        "if False:",
        "move leader",
    ),
    Defect(
        "a group passes over what a backfill has put before its place",
        "groups/translation.py",
        "is_first = record <= unread",
        "is_first = True",
        "second run",
    ),
    Defect(
        "an answer that was asked for ahead may be of another branch",
        "wire/partitions/read_ahead.py",
        "return epoch is not None and leader_epoch in (-1, epoch)",
        "return epoch is not None",
        "cut fetched",
    ),
    Defect(
        "a position goes one too far",
        "copy/target/progress.py",
        "ours = replace(\n                position,\n",
        "ours = replace(\n                replace(position, offset=position.offset + (position.offset > 5)),\n",
    ),
    Defect(
        "an unknown outcome is taken for a success",
        "copy/target/produce/verdicts.py",
        "elif answer.code in _VOID:",
        "elif answer.code in _VOID:\n            out.base_offset = max(answer.base_offset, 0)\n            "
        "queue.settle()\n        elif False:",
        "refuse",
    ),
    Defect(
        "positions are not compared with the ledger",
        "runs/state/known_positions.py",
        "if tp in written\n        and not is_confirmed(",
        "if False and tp in written\n        and not is_confirmed(",
        "cut internal",
    ),
    Defect(
        "foreign records are not counted",
        "verify/recount.py",
        "            foreign.add(header)\n\n    def _add_to",
        "            pass\n\n    def _add_to",
        "write foreign",
    ),
    Defect(
        "what an earlier try has sent is sent again",
        "copy/copier.py",
        "start = position or Position(range_.start, ",
        "start = Position(range_.start, ",
        "kill task,lose result,double task",
    ),
    Defect(
        "a topic that was recreated during a transaction is not noticed",
        "copy/target/produce/partition_leaders.py",
        'elif leader.topic_id not in ("", queues[tp].remote_topic_id):',
        "elif False:",
        "recreate target",
    ),
    Defect(
        "the epoch before the position is not sent",
        "wire/partitions/fetch.py",
        "last_fetched_epoch=checks[tp].leader_epoch",
        "last_fetched_epoch=-1",
        "cut source",
    ),
    Defect(
        "an error of a fetch is an empty answer",
        "copy/source/fetch_answers.py",
        "        elif fetched.error != NONE:\n            self.judge_error(cursor, fetched.error)\n",
        "        elif fetched.error != NONE:\n            batches = [gap(cursor.at, cursor.range.end)]\n",
        "refuse",
    ),
    Defect(
        "an error of one partition is not looked at in Produce",
        "copy/target/produce/pipeline.py",
        "entry.error_code,\n                entry.base_offset",
        "0,\n                entry.base_offset",
        "refuse",
    ),
    Defect(
        "the first plan's ledger end is trusted",
        "runs/verify/due.py",
        "proved = min(ledger.verified_through(), plan.ledger_end)",
        "proved = plan.ledger_end",
        "kill driver,write foreign",
    ),
    Defect(
        "only the run's own ranges are verified",
        "runs/verify/due.py",
        "if entry.ledger_offset >= since\n        or wanted.topic_filter is None\n        "
        "or wanted.topic_filter.matches(entry.copied.topic)\n",
        "if entry.run == plan.run\n",
        "kill driver,write foreign",
    ),
    Defect(
        "a lost marker of a proved transaction is not looked for",
        "runs/plan/discover.py",
        "hidden = positions.hidden | hidden_ends(flow, target, ledger, remote_topics.values())",
        "hidden = positions.hidden",
        "lose marker",
    ),
    Defect(
        "a backfill copies a new branch below the position",
        "copy/source/cursor.py",
        "if epoch <= newest or newest < 0:",
        "if True:",
        "cut source",
    ),
    Defect(
        "a writer begins an epoch that its partitions know",
        "wire/transactions/producer.py",
        "while self.epoch <= newest and self.producer_id == producer_id:",
        "while False:",
        "cut coordinator",
    ),
    Defect(
        "what has come since the opposite flow's ledger was read is the source's own",
        "batches/returned_records.py",
        "if self._seen and not self._seen.has(batch):",
        "if False:",
        "cut source,cut target,return branch,pause task,strand task",
    ),
    Defect(
        "a group is ready in a log that was truncated and written on",
        "runs/provenance/log_mismatches.py",
        "cut |= displaced_partitions(ledger, topics)",
        "pass",
        "cut target,strand task,pause task",
    ),
    Defect(
        "one broker is believed who leads",
        "wire/cluster.py",
        "_newest_leaders(answers)",
        "_newest_leaders(answers[:1])",
        "isolate broker",
    ),
    Defect(
        "what a rule gives is the next record's",
        "copy/source/transformed.py",
        "begin += len(records)\n            if is_dropped",
        "begin += len(records) - (len(records) == 3)\n            if is_dropped",
    ),
    Defect(
        "an old plan sets the position of a newer topic back",
        "copy/copier.py",
        "if position.topic_id != range_.replaces:",
        "if False:",
        "recreate source,late task",
    ),
    Defect(
        "a certificate follows the target's, whatever the state folder has",
        "runs/publish/certify.py",
        "return stored if known is None or is_newer else known",
        "return stored",
        "cut internal,kill driver,second run",
    ),
    Defect(
        "what the target has lost since it was read back is certified",
        "runs/publish/certify.py",
        "    if gone:\n        raise CertificateError(",
        "    if False:\n        raise CertificateError(",
        "cut target",
    ),
)


def find(defect: Defect, most: int, seconds: float, jobs: int) -> str:
    """Run histories under a defect until one is wrong; gives what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(PRODUCT / "kafka_ferry", copy / "kafka_ferry")
        module = copy / "kafka_ferry" / defect.module
        text = module.read_text()
        if not defect.old or text.count(defect.old) != 1:
            return f"not planted: its text is there {text.count(defect.old)} times"
        module.write_text(text.replace(defect.old, defect.new))
        command = [sys.executable, "-m", "tests.simulation", "--first", "0", "--stop"]
        command += ["--histories", str(most), "--seconds", str(seconds), "--jobs", str(jobs)]
        if defect.only:
            command += ["--only", defect.only]
        path = f"{copy}:{Path(__file__).parents[2]}"
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
    said = [line for line in done.stdout.splitlines() if line]
    blame = next((line for line in said if line.startswith("(")), "")
    last = next((line for line in reversed(said) if "histories from" in line), done.stderr[-300:])
    return f"{last} {blame}"


def main() -> int:
    """The exit status: 1 if a defect is not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--name", default="", help="only those whose names contain this")
    parser.add_argument("--skip", type=int, default=0, help="so many of the first ones")
    options = parser.parse_args()
    missed = 0
    for defect in DEFECTS[options.skip :]:
        if options.name in defect.name:
            found = find(defect, options.most, options.seconds, options.jobs)
            missed += "(" not in found
            print(f"{defect.name}: {found}", flush=True)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
