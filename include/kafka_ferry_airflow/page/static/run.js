// One run: what it did and proved, its tasks, and the ranges that it committed.

import { C, Inside, Outside, Place, api, h, useApi } from "./base.js";
import { at, clock, count, duration, number, size } from "./format.js";
import { Below, Card, Count, Crumbs, Failure, Records, Shape, Stat, State, Stats, Title, Waiting, When, paletteOf } from "./parts.js";
import { Attention, Reasons } from "./flow.js";
import { Names } from "./flows.js";
import { ApiTable } from "./table.js";

const REFRESH_S = 10;
const GOES_ON = ["queued", "running"];

export function Run({ slug, run }) {
  const { data: flow, error: noFlow } = useApi(api(slug));
  const { data, error } = useApi(api(slug, "runs", run), { refresh: REFRESH_S });
  const crumbs = h(Crumbs, null, h(Place, { to: {} }, "Mirrors"), h(Place, { to: { flow: slug } }, flow ? h(Names, { flow }) : slug),
    h(Place, { to: { flow: slug, tab: "runs" } }, "Runs"), h(C.Span, { overflowWrap: "anywhere" }, run));
  if ((error && !data) || noFlow) return h(C.Box, null, crumbs, h(Failure, { error: error ?? noFlow }));
  if (!data || !flow) return h(C.Box, null, crumbs, h(Waiting));
  return h(C.Box, null, crumbs, h(Head, { flow, run, data }),
    h(C.VStack, { align: "stretch", gap: 3, mt: 4 },
      h(Attention, { kinds: data.attention }),
      h(C.SimpleGrid, { columns: { base: 1, lg: 2 }, gap: 3, alignItems: "start" },
        h(Card, { title: "Tasks" }, h(Tasks, { flow, run, data })),
        data.has_report ? h(Card, { title: "Source offsets of this run" }, h(Reasons, { copied: data.summary?.records ?? 0, reasons: data.reasons }), h(Rebuilt, { rebuilt: data.rebuilt, batches: data.batches })) : null,
        data.rules.length ? h(Card, { title: "What transform rules did" }, h(Lines, { lines: data.rules })) : null,
        data.expectations.length ? h(Card, { title: "What was checked" }, h(Expectations, { checks: data.expectations })) : null,
        data.changes.length ? h(Card, { title: "Changed on the target" }, h(Lines, { lines: data.changes })) : null),
      h(C.Box, null, h(Title, { mb: 3, mt: 2 }, "Ranges"), h(Ranges, { slug, run }))));
}

function Head({ flow, run, data }) {
  const { summary, dag_run: dagRun, options } = data;
  const asked = askedFor(options);
  const ended = summary?.finished_at ?? dagRun?.ended_at;
  return h(C.Box, null,
    h(C.Flex, { alignItems: "center", justifyContent: "space-between", gap: 3, flexWrap: "wrap", mb: 1 },
      h(C.HStack, { gap: 2, flexWrap: "wrap", minW: 0 }, h(C.Heading, { as: "h1", size: "md", overflowWrap: "anywhere" }, run), h(State, { state: data.outcome || dagRun?.state || "never run" })),
      h(C.HStack, { gap: 2, flexWrap: "wrap" },
        dagRun ? h(C.Button, { asChild: true, variant: "outline" }, h(Inside, { to: `/dags/${flow.dag_id}/runs/${encodeURIComponent(run)}`, color: "fg" }, "Dag run")) : null,
        data.has_report ? h(C.Button, { asChild: true, variant: "outline" }, h(Outside, { path: `${api(flow.slug, "runs", run)}/report`, color: "fg" }, "Report")) : null)),
    h(C.Text, { color: "fg.muted", mb: asked ? 1 : 4 }, summary?.headline ?? (dagRun ? (GOES_ON.includes(dagRun.state) ? "This run has not ended" : "This run has published no report") : ""),
      ended ? h(C.Span, null, "; ended ", h(When, { ms: ended, quiet: true })) : null),
    asked ? h(C.Text, { mb: 4 }, asked) : null,
    h(Stats, null,
      h(Stat, { label: "Whole run" }, duration(summary && (summary.finished_at - summary.planned_at) / 1000)),
      h(Stat, { label: "Copying" }, duration(summary?.copying_seconds)),
      h(Stat, { label: "Records" }, h(Records, { records: summary?.records, heartbeats: summary?.heartbeats })),
      h(Stat, { label: "Size" }, size(summary?.bytes)),
      h(Stat, { label: "Throughput" }, summary?.copying_seconds ? `${size(summary.bytes / summary.copying_seconds)}/s` : "–"),
      h(Stat, { label: "Lag then" }, h(Count, { value: summary?.records_behind })),
      h(Stat, { label: "Lost" }, h(Count, { value: summary?.lost, alarm: true })),
      h(Stat, { label: "Partitions" }, number(summary?.partitions))));
}

/** The options of this run that its flow does not set, in a sentence. */
function askedFor(options) {
  if (!options) return "";
  const parts = [];
  if (options.window) parts.push(`a backfill of the records from ${at(options.window.since_ms)} to ${at(options.window.until_ms)}`);
  if (options.topics?.length) parts.push(`only ${options.topics.join(", ")}`);
  if (options.dry_run) parts.push("only a plan");
  if (options.verify_all) parts.push("a new verification of everything that was ever copied");
  if (options.max_bytes_per_s) parts.push(`at most ${size(options.max_bytes_per_s)}/s`);
  return parts.length ? `Asked for: ${parts.join("; ")}.` : "";
}

function Tasks({ flow, run, data }) {
  const steps = Object.fromEntries(data.steps.map((step) => [step.step, step]));
  const rows = data.tasks.length ? data.tasks : data.steps.filter((step) => step.seconds !== null).map((step) => ({ task: step.step, map_index: -1, state: step.error ? "failed" : "success" }));
  if (!rows.length) return h(C.Text, { color: "fg.muted" }, "None of its tasks has ended yet.");
  return h(C.Table.ScrollArea, null, h(C.Table.Root, { size: "sm", "aria-label": "Tasks" },
    h(C.Table.Header, null, h(C.Table.Row, null, ["Task", "State", "Took"].map((name) => h(C.Table.ColumnHeader, { key: name, color: "fg.muted", fontWeight: "bold", scope: "col" }, name)))),
    h(C.Table.Body, null, rows.map((row) => {
      const mapped = row.map_index >= 0;
      const to = `/dags/${flow.dag_id}/runs/${encodeURIComponent(run)}/tasks/${encodeURIComponent(row.task)}${mapped ? `/mapped/${row.map_index}` : ""}`;
      const name = mapped ? `${row.task} [${row.map_index}]` : row.task;
      return h(C.Table.Row, { key: name },
        h(C.Table.Cell, null, data.tasks.length ? h(Inside, { to, title: "Its log" }, name) : name),
        h(C.Table.Cell, null, row.state ? h(State, { state: row.state, fontSize: "xs", py: 0.5 }) : "–"),
        h(C.Table.Cell, { fontVariantNumeric: "tabular-nums" }, mapped ? "" : duration(steps[row.task]?.seconds)));
    }))));
}

const Lines = ({ lines }) =>
  h(C.VStack, { as: "ul", align: "stretch", gap: 1, fontSize: "sm", listStyleType: "none" }, lines.map((line) => h(C.Text, { as: "li", key: line, overflowWrap: "anywhere" }, line)));

const Rebuilt = ({ rebuilt, batches }) => {
  const all = Object.values(rebuilt).reduce((sum, many) => sum + many, 0);
  if (!batches) return null;
  const why = Object.entries(rebuilt).map(([reason, many]) => `${number(many)} ${reason}`).join(", ");
  return h(C.Text, { fontSize: "sm", color: "fg.muted", mt: 3 }, `${number(batches)} batches; ${all ? `${count(all, "was", "were")} opened and rebuilt: ${why}.` : "all passed unopened."}`);
};

const Expectations = ({ checks }) =>
  h(C.VStack, { as: "ul", align: "stretch", gap: 1.5, fontSize: "sm", listStyleType: "none" },
    [...checks].sort((a, b) => a.success - b.success).map((check) =>
      h(C.HStack, { as: "li", key: `${check.table} ${check.name}`, alignItems: "flex-start", gap: 2 },
        h(Shape, { name: check.success ? "check" : check.severity === "warning" ? "alert" : "cross", mt: 0.5, color: check.success ? "success.fg" : check.severity === "warning" ? "warning.fg" : "failed.fg" }),
        h(C.Box, { minW: 0 }, h(C.VisuallyHidden, null, check.success ? "True: " : "Not true: "), check.name,
          check.success ? null : h(C.Text, { color: "fg.muted", overflowWrap: "anywhere" }, check.raised ?? check.unexpected.slice(0, 3).join(" ")),
          check.success || !check.advice ? null : h(C.Text, { color: "fg.muted" }, `What to do: ${check.advice}`)))));

const WIDE = [
  { key: "topic", title: "Topic", breaks: "5.5rem", show: (row) => h(C.Span, { title: `on the target: ${row.remote_topic}` }, row.topic, h(Below, null, `partition ${row.partition}, ${number(row.start)} to ${number(row.end)}`, counted(row.reasons).map((reason) => `, ${reason}`))) },
  { key: "partition", title: "Partition", end: true, hideBelow: "md", show: (row) => number(row.partition) },
  { key: "start", title: "From", end: true, hideBelow: "md", show: (row) => number(row.start) },
  { key: "end", title: "To", end: true, hideBelow: "md", show: (row) => number(row.end) },
  { key: "records", title: "Records", end: true, show: (row) => number(row.records) },
  { key: "reasons", title: "Without a record", still: true, hideBelow: "md", breaks: "9rem", show: (row) => said(row.reasons) },
  { key: "rebuilt", title: "Batches rebuilt", still: true, hideBelow: "xl", breaks: "9rem", show: (row) => said(row.rebuilt) },
  { key: "bytes", title: "Size", end: true, hideBelow: "lg", show: (row) => size(row.bytes) },
  { key: "at", title: "Committed", hideBelow: "lg", show: (row) => h("time", { dateTime: new Date(row.at).toISOString(), title: at(row.at) }, clock(row.at)) },
  { key: "verified", title: "Verified", show: (row) => h(C.Badge, { colorPalette: paletteOf(row.verified ? "verified" : "not verified"), variant: "subtle", borderRadius: "full" }, row.verified ? "yes" : "not yet") },
];

function counted(counts) {
  return Object.entries(counts).map(([reason, many]) => `${number(many)} ${reason}`);
}

const said = (counts) => {
  const parts = counted(counts);
  return parts.length ? h(C.Span, { color: counts.lost ? "failed.fg" : "fg.muted", fontSize: "sm" }, parts.join(", ")) : null;
};

const Ranges = ({ slug, run }) =>
  h(ApiTable, { path: `${api(slug, "runs", run)}/ranges`, noun: "range", columns: WIDE, pre: "range-", refresh: 4 * REFRESH_S,
    keyOf: (row) => `${row.topic} ${row.partition} ${row.start}`,
    empty: h(C.Text, { color: "fg.muted", role: "status" }, "This run has copied nothing.") });
