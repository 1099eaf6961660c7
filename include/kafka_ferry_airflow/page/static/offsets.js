// All source offsets of a mirror over time: copied, or the reason why not. From the flow down to one record.

import { C, Place, api, h, useApi, usePlace, useState, withQuery } from "./base.js";
import { OffsetsPlot, REASONS, WORDS } from "./offsets_plot.js";
import { at, brief, count, number } from "./format.js";
import { Below, Card, Choice, Count, Failure, Waiting, When, paletteOf } from "./parts.js";
import { ApiTable } from "./table.js";

const REFRESH_S = 60;

export function Offsets({ flow, place }) {
  const [, go] = usePlace();
  const topic = place.of;
  const partition = topic && place.part ? place.part : undefined;
  const { data, error } = useApi(withQuery(`${api(flow.slug)}/offsets`, { topic, partition }), { refresh: REFRESH_S });
  const [shown, setShown] = useState("all");
  const bars = data?.bars ?? [];
  const title = partition ? `${topic}-${partition}` : topic ?? "All topics";
  return h(C.VStack, { align: "stretch", gap: 3 },
    h(Way, { flow, topic, partition }),
    error ? h(Failure, { error }) : !data ? h(Waiting) :
      h(Card, { title: `Source offsets of each run: ${title}`,
        aside: h(Choice, { label: "Which offsets", options: [["all", "All"], ["without", "Without a record"]], value: shown, onChoose: setShown }) },
        h(OffsetsPlot, { bars, without: shown === "without", onChoose: (bar) => go({ run: bar.run, of: "", part: "", offset: "", tab: "" }) }),
        h(Sums, { bars })),
    partition ? h(Record, { flow, topic, partition, place }) : null,
    partition ? h(Ranges, { flow, topic, partition }) : h(Rows, { key: topic ?? "", flow, topic }));
}

/** Where one is, and the ways back up. */
const Way = ({ flow, topic, partition }) =>
  h(C.HStack, { gap: 2, fontSize: "sm", flexWrap: "wrap" },
    topic ? h(Place, { to: { flow: flow.slug, tab: "offsets" } }, "All topics") : h(C.Span, { color: "fg.muted" }, "All topics"),
    topic ? h(C.Span, { color: "fg.muted" }, "/") : null,
    topic ? (partition ? h(Place, { to: { flow: flow.slug, tab: "offsets", of: topic } }, topic) : h(C.Span, null, topic)) : null,
    partition ? h(C.Span, null, `/ partition ${partition}`) : null);

/** The equation below the picture; what backfills read may be in it already. */
function Sums({ bars }) {
  const own = bars.filter((bar) => !bar.backfill);
  const sum = (of) => own.reduce((so, bar) => so + of(bar), 0);
  const reasons = REASONS.filter((reason) => own.some((bar) => bar.reasons[reason]));
  const other = [...new Set(own.flatMap((bar) => Object.keys(bar.reasons)))].filter((reason) => !REASONS.includes(reason));
  const parts = [...reasons, ...other].map((reason) => `${number(sum((bar) => bar.reasons[reason] ?? 0))} ${WORDS[reason] ?? reason}`);
  const rewinds = sum((bar) => bar.rewinds);
  const backfills = bars.filter((bar) => bar.backfill).reduce((so, bar) => so + bar.runs, 0);
  return h(C.Text, { fontSize: "sm", mt: 3 },
    `${number(sum((bar) => bar.offsets))} source offsets = ${[`${number(sum((bar) => bar.copied))} copied`, ...parts].join(" + ")}.`,
    rewinds ? h(C.Span, { color: "failed.fg" }, ` The source's log was truncated ${count(rewinds, "time")} below what had been copied (${number(sum((bar) => bar.rewound))} offsets).`) : null,
    backfills ? ` What ${count(backfills, "backfill")} read is not in this sum.` : null);
}

const SUMS = [
  { key: "offsets", title: "Source offsets", end: true, hideBelow: "md", show: (row) => h(Count, { value: row.offsets }) },
  { key: "copied", title: "Copied", end: true, hideBelow: "md", show: (row) => h(Count, { value: row.copied }) },
  { key: "left_out", title: "Without a record", end: true, hideBelow: "md", show: (row) => h(C.Span, { title: told(row.reasons) }, h(Count, { value: row.left_out })) },
  { key: "lost", title: "Lost", end: true, show: (row) => h(Count, { value: row.lost, alarm: true }) },
  { key: "rewinds", title: "Truncations", end: true, hideBelow: "lg", show: (row) => h(Count, { value: row.rewinds, alarm: true }) },
  { key: "backfilled", title: "Read by backfills", end: true, hideBelow: "lg", show: (row) => h(Count, { value: row.backfilled }) },
  { key: "last_at", title: "Last", hideBelow: "md", show: (row) => h(When, { ms: row.last_at }) },
];

const told = (reasons) => Object.entries(reasons).map(([reason, many]) => `${number(many)} ${WORDS[reason] ?? reason}`).join(", ");
const nothing = h(C.Text, { color: "fg.muted", py: 4, role: "status" }, "Nothing yet: the first transaction adds it.");

function Rows({ flow, topic }) {
  const down = (row) => ({ flow: flow.slug, tab: "offsets", of: topic ?? row.name, part: topic ? row.name : "" });
  const name = { key: topic ? "partition" : "name", title: topic ? "Partition" : "Topic", breaks: "9rem",
    show: (row) => h(C.Box, null, h(Place, { to: down(row), fontWeight: "semibold" }, row.name), h(Below, null, `${brief(row.offsets)} source offsets, ${brief(row.left_out)} without a record`)) };
  return h(ApiTable, { path: `${api(flow.slug)}/offsets/rows`, query: { topic }, noun: topic ? "partition" : "topic", columns: [name, ...SUMS],
    keyOf: (row) => row.name, refresh: REFRESH_S, empty: nothing, pre: topic ? "part-" : "of-" });
}

function Ranges({ flow, topic, partition }) {
  const columns = [
    { key: "start", title: "From", end: true, show: (row) => h(C.Box, null, number(row.start), h(Below, null, told(row.reasons))) },
    { key: "end", title: "To", end: true, show: (row) => number(row.end) },
    { key: "records", title: "Copied", end: true, show: (row) => number(row.records) },
    { key: "reasons", title: "Without a record", still: true, hideBelow: "md", breaks: "9rem", show: (row) => h(C.Span, { color: row.reasons.lost ? "failed.fg" : "fg.muted", fontSize: "sm" }, told(row.reasons)) },
    { key: "run", title: "Run", breaks: "9rem", hideBelow: "md", show: (row) => h(C.Box, null, h(Place, { to: { flow: flow.slug, run: row.run } }, row.run),
      row.backfill ? " (backfill)" : "", row.rewound_from >= 0 ? h(C.Text, { color: "failed.fg", fontSize: "sm" }, `set back from ${number(row.rewound_from)}`) : null) },
    { key: "at", title: "Committed", hideBelow: "md", show: (row) => h(When, { ms: row.at }) },
    { key: "verified", title: "Verified", hideBelow: "md", show: (row) => h(C.Badge, { colorPalette: paletteOf(row.verified ? "verified" : "not verified"), variant: "subtle", borderRadius: "full" }, row.verified ? "yes" : "not yet") }];
  return h(ApiTable, { path: `${api(flow.slug)}/offsets/ranges`, query: { topic, partition }, noun: "range", columns, refresh: REFRESH_S,
    keyOf: (row) => `${row.run} ${row.start} ${row.at}`, empty: nothing, pre: "range-" });
}

/** One record of the source, by the ledger. */
function Record({ flow, topic, partition, place }) {
  const [, go] = usePlace();
  const [text, setText] = useState(place.offset ?? "");
  const offset = /^\d{1,18}$/.test(place.offset ?? "") ? place.offset : undefined;
  const { data, error } = useApi(offset === undefined ? null : withQuery(`${api(flow.slug)}/offsets/record`, { topic, partition, offset }));
  const submit = (event) => {
    event.preventDefault();
    go({ offset: text.trim() }, { replace: true });
  };
  return h(Card, { title: "One record" },
    h(C.chakra.form, { onSubmit: submit, display: "flex", gap: 2, alignItems: "center", flexWrap: "wrap" },
      h(C.Input, { inputMode: "numeric", maxW: "14rem", size: "sm", "aria-label": "Source offset", placeholder: "Source offset", value: text, onChange: (event) => setText(event.target.value) }),
      h(C.Button, { type: "submit", size: "sm", variant: "outline" }, "Where is it?")),
    error ? h(Failure, { error }) : offset !== undefined && data ? h(Found, { flow, offset, found: data.found }) : null);
}

const Found = ({ flow, offset, found }) =>
  found.length ? h(C.VStack, { as: "ul", align: "stretch", gap: 1, mt: 3, fontSize: "sm", listStyleType: "none" }, found.map((one) =>
    h(C.Box, { as: "li", key: one.ledger_offset },
      one.offset === null ? `No record on the target: ${WORDS[one.reason] ?? one.reason}.` : `${one.remote_topic} offset ${number(one.offset)}.`,
      one.backfill ? " A backfill, " : " Run ", h(Place, { to: { flow: flow.slug, run: one.run } }, one.run), `, ${at(one.at)}, ledger offset ${number(one.ledger_offset)}.`,
      one.proved_by ? ` Proved ${at(one.proved_at)} by ${one.proved_by}.` : one.backfill ? "" : " Not proved yet.",
      one.certificate ? ` Certificate ${one.certificate}.` : "")))
    : h(C.Text, { mt: 3, fontSize: "sm", color: "fg.muted", role: "status" }, `No run has accounted for offset ${number(Number(offset))}.`);
