// One mirror: its state, topics, partitions, runs and groups.

import { C, Inside, Outside, Place, api, h, useApi, usePlace } from "./base.js";
import { brief, count, duration, number, size } from "./format.js";
import { Below, Card, Choice, Count, Crumbs, Empty, Failure, Label, Records, Shape, Stat, State, Stats, Tabs, Waiting, When, paletteOf } from "./parts.js";
import { Plot, SECONDS } from "./charts.js";
import { ApiTable } from "./table.js";
import { Approval, Names, VerifiedUntil, isOverdue } from "./flows.js";
import { Offsets } from "./offsets.js";
import { WORDS } from "./offsets_plot.js";

const REFRESH_S = 15;
const SHOWN = 5;
const LEVELS = { failed: ["cross", "failed.fg"], warning: ["alert", "warning.fg"], info: ["info", "fg.muted"] };

export function Flow({ slug }) {
  const [place] = usePlace();
  const { data, error } = useApi(api(slug), { refresh: REFRESH_S });
  if (error && !data) return h(C.Box, null, h(Crumbs, null, h(Place, { to: {} }, "Mirrors")), h(Failure, { error }));
  if (!data) return h(Waiting);
  const tab = place.topic ? "partitions" : place.tab ?? "overview";
  const hrefOf = (key) => `?${new URLSearchParams({ flow: slug, ...(key === "overview" ? {} : { tab: key }) })}`;
  const tabs = [["overview", "Overview"], ["topics", "Topics", data.totals.topics], ["partitions", "Partitions", data.totals.partitions], ["offsets", "Offsets"], ["runs", "Runs"], ["groups", "Groups"]];
  const Part = { overview: Overview, topics: Topics, partitions: Partitions, offsets: Offsets, runs: Runs, groups: Groups }[tab] ?? Overview;
  return h(C.Box, null, h(Head, { flow: data }), h(Tabs, { tabs, current: tab, hrefOf }), h(Part, { key: tab, flow: data, place }));
}

function Head({ flow }) {
  const { current, last, totals } = flow;
  return h(C.Box, null, h(Crumbs, null, h(Place, { to: {} }, "Mirrors"), h(C.Span, null, flow.name.replace("->", " → "))),
    h(C.Flex, { alignItems: "center", justifyContent: "space-between", gap: 3, flexWrap: "wrap", mb: 4 },
      h(C.HStack, { gap: 2, minW: 0, flexWrap: "wrap" }, h(Shape, { name: "mirror", boxSize: 5 }),
        h(C.Heading, { as: "h1", size: "lg", overflowWrap: "anywhere" }, h(Names, { flow })),
        h(State, { state: flow.status }), flow.dag?.question ? h(Approval, { flow }) : flow.activity ? h(State, { state: flow.activity }) : null,
        isOverdue(flow) ? h(State, { state: "overdue" }) : null),
      h(C.HStack, { gap: 2, flexWrap: "wrap" },
        flow.dag ? h(C.Button, { asChild: true, variant: "outline" }, h(Inside, { to: `/dags/${flow.dag_id}`, color: "fg" }, "Dag")) : null,
        last ? h(C.Button, { asChild: true, variant: "outline" }, h(Outside, { path: `${api(flow.slug, "runs", last.run)}/report`, color: "fg" }, "Last report")) : null,
        flow.has_docs ? h(C.Button, { asChild: true, variant: "outline" }, h(Outside, { path: `${api(flow.slug, "data_docs")}/`, color: "fg" }, "Data Docs")) : null)),
    h(Stats, null,
      h(Stat, { label: "Lag, last run" }, h(Count, { value: current?.records_behind }), current?.records_behind ? " records" : ""),
      h(Stat, { label: "Lag, time" }, duration(current?.seconds_behind)),
      h(Stat, { label: "Verified until" }, h(VerifiedUntil, { current })),
      current?.oldest_proof ? h(Stat, { label: "Oldest proof" }, h(When, { ms: current.oldest_proof })) : null,
      h(Stat, { label: "Records, in total" }, h(Records, totals)),
      h(Stat, { label: "Lost" }, h(Count, { value: totals.lost, alarm: true })),
      h(Stat, { label: "Drift" }, h(Count, { value: last?.drifts, alarm: true })),
      h(Stat, { label: "Last run" }, last ? h(Place, { to: { flow: flow.slug, run: last.run } }, h(When, { ms: last.finished_at })) : h(When, {})),
      h(Stat, { label: "Next run" }, flow.dag?.paused ? "paused" : flow.dag?.question ? "after the approval" : h(When, { ms: flow.dag?.next_run_at }))));
}

function Overview({ flow }) {
  const [, go] = usePlace();
  const { data } = useApi(`${api(flow.slug)}/history`, { refresh: 4 * REFRESH_S });
  if (!flow.last) return h(NeverRun, { flow });
  const runs = data?.runs ?? [];
  const onChoose = (point) => go({ run: point.run });
  const whole = runs.filter((run) => run.records_behind !== null);
  const tone = (run) => ({ failed: "failed", warning: "warning" })[paletteOf(run.state)] ?? "line";
  return h(C.VStack, { align: "stretch", gap: 3 }, h(Attention, { kinds: flow.attention }),
    h(C.SimpleGrid, { columns: { base: 1, lg: 2 }, gap: 3 },
      h(Card, { title: "Lag after each run, records" }, h(Plot, { label: "Lag in records", points: whole.map((run) => ({ ...run, value: run.records_behind })), format: brief, onChoose })),
      h(Card, { title: "Lag after each run, time" }, h(Plot, { label: "Lag in time", points: whole.map((run) => ({ ...run, value: run.seconds_behind })), format: duration, steps: SECONDS, onChoose })),
      h(Card, { title: "Records per run" }, h(Plot, { label: "Records of each run", bars: true, toneOf: tone, points: runs.map((run) => ({ ...run, value: run.records })), format: brief, onChoose })),
      h(Card, { title: "Throughput while copying" }, h(Plot, { label: "Bytes per second while copying", points: runs.map((run) => ({ ...run, value: run.copying_seconds && run.bytes ? run.bytes / run.copying_seconds : null })), format: (value) => `${size(value)}/s`, onChoose }))),
    h(C.SimpleGrid, { columns: { base: 1, lg: 2 }, gap: 3 },
      h(Card, { title: "Source offsets so far" }, h(Reasons, { copied: flow.totals.records, reasons: flow.reasons })),
      h(Card, { title: "This mirror" }, h(Facts, { flow }))));
}

/** What there is in place of a report: none is published. */
function NeverRun({ flow }) {
  const { question, paused, latest } = flow.dag ?? {};
  const run = latest && !latest.is_dry ? h(Inside, { key: "run", to: `/dags/${flow.dag_id}/runs/${encodeURIComponent(latest.run)}` }, latest.run) : null;
  const dag = h(Inside, { key: "dag", to: `/dags/${flow.dag_id}` }, flow.dag_id);
  if (question) return h(Empty, { title: "A run waits for an approval, and has copied nothing yet" }, [h(Approval, { key: "approval", flow })]);
  if (run && flow.activity) return h(Empty, { title: `The first run is ${flow.activity}` },
    [paused ? "Its DAG is paused: switch it on. " : "", "When it ends, it publishes here what it copied and proved: ", run, "."]);
  if (run) return h(Empty, { title: "No run of this mirror has published a report yet" }, [`The last one has ended (${latest.state}): `, run, "."]);
  return h(Empty, { title: "This mirror has not run yet" },
    paused ? ["Its DAG is paused. Switch it on: ", dag, "."] : ["Its first run publishes here what it copied and proved. To start a run, trigger the DAG: ", dag, "."]);
}

export const Attention = ({ kinds }) =>
  kinds.length ? h(C.VStack, { as: "ul", align: "stretch", gap: 2, listStyleType: "none" }, kinds.map((kind) => h(Kind, { key: kind.title, kind }))) : null;

/** The first sentences, and the rest on request: a closed list looks like an empty one. */
function Kind({ kind }) {
  const [name, color] = LEVELS[kind.level];
  const shown = kind.level === "info" ? 0 : SHOWN;
  const [first, rest] = [kind.sentences.slice(0, shown), kind.sentences.slice(shown)];
  return h(C.Box, { as: "li", borderWidth: 1, borderRadius: 8, px: 3, py: 2 },
    h(C.Flex, { alignItems: "center", gap: 2, fontWeight: "semibold" },
      h(Shape, { name, color }), h(C.Span, null, kind.title), h(C.Badge, { borderRadius: "full", variant: "subtle" }, number(kind.count))),
    first.length ? h(Sentences, { sentences: first, ms: 6 }) : null,
    rest.length ? h(C.chakra.details, { ms: 6, mt: 1 },
      h(C.chakra.summary, { cursor: "pointer", color: "fg.info", fontSize: "sm" }, first.length ? `${number(kind.count - first.length)} more` : "Show"),
      h(Sentences, { sentences: kind.count > kind.sentences.length ? [...rest, `and ${number(kind.count - kind.sentences.length)} more, in the report`] : rest })) : null,
    kind.advice.length ? h(Sentences, { sentences: kind.advice, ms: 6, color: "fg.muted" }) : null);
}

const Sentences = ({ sentences, ...props }) =>
  h(C.VStack, { as: "ul", align: "stretch", gap: 1, mt: 1, listStyleType: "none", ...props }, sentences.map((sentence, place) =>
    h(C.Text, { as: "li", key: place, fontSize: "sm", overflowWrap: "anywhere", whiteSpace: "pre-line" }, sentence)));

/** Copied records and all reasons: together they are always all offsets. */
export function Reasons({ copied, reasons }) {
  const rows = [["copied", copied], ...Object.entries(reasons).sort((a, b) => b[1] - a[1])];
  const all = rows.reduce((sum, [, value]) => sum + value, 0);
  return h(C.Grid, { as: "dl", templateColumns: "1fr auto auto", columnGap: 4, rowGap: 1.5, m: 0, fontSize: "sm" },
    rows.flatMap(([reason, value]) => [
      h(C.Box, { as: "dt", key: reason, color: reason === "lost" ? "failed.fg" : undefined }, WORDS[reason] ?? reason),
      h(C.Box, { as: "dd", key: `${reason}n`, textAlign: "end", fontVariantNumeric: "tabular-nums", fontWeight: reason === "copied" ? "semibold" : undefined }, number(value)),
      h(C.Box, { as: "dd", key: `${reason}p`, textAlign: "end", color: "fg.muted", fontVariantNumeric: "tabular-nums", minW: "4.5rem" }, all ? percent(value / all) : "")]));
}

const percent = (part) => (part > 0 && part < 0.0001 ? "< 0.01 %" : `${(part * 100).toFixed(2)} %`);

const Facts = ({ flow }) =>
  h(C.Grid, { as: "dl", templateColumns: "auto 1fr", columnGap: 4, rowGap: 1.5, m: 0, fontSize: "sm" },
    [["Topics", flow.topics.join(", ")], ["Left out", flow.topics_exclude.join(", ") || "nothing"], ["Schedule", flow.dag?.schedule || "none"],
      ["Dag", h(Inside, { to: `/dags/${flow.dag_id}` }, flow.dag_id)], ["File", flow.file], ["State", flow.state]].flatMap(([name, value]) => [
      h(Label, { key: name }, name), h(C.Box, { as: "dd", key: `${name}v`, overflowWrap: "anywhere", minW: 0 }, value)]));

const HEALTH = { key: "health", title: "State", show: (row) => h(State, { state: row.health, quiet: true }) };
const LAG = [
  { key: "records_behind", title: "Lag", end: true, hideBelow: "md", show: (row) => h(Count, { value: row.records_behind }) },
  { key: "seconds_behind", title: "Lag, time", end: true, hideBelow: "md", show: (row) => duration(row.seconds_behind) },
];
const AMOUNTS = [
  { key: "verified_until", title: "Verified until", hideBelow: "md", show: (row) => h(When, { ms: row.verified_until }) },
  { key: "records", title: "Records", end: true, hideBelow: "lg", show: (row) => h(Count, { value: row.records }) },
  { key: "bytes", title: "Size", end: true, hideBelow: "lg", show: (row) => size(row.bytes) },
  { key: "lost", title: "Lost", end: true, hideBelow: "md", show: (row) => h(Count, { value: row.lost, alarm: true }) },
  { key: "preserved", title: "Offsets", hideBelow: "xl", show: (row) => (row.preserved ? "preserved" : "translated") },
];
const below = (row) => h(Below, null, `lag ${brief(row.records_behind)}, verified until `, h(When, { ms: row.verified_until }));
const nothingCopied = h(C.Text, { color: "fg.muted", py: 4, role: "status" }, "Nothing yet: the first run that is published adds them.");

function Topics({ flow }) {
  const columns = [
    { key: "topic", title: "Topic", breaks: "9rem", show: (row) => h(C.Box, null, h(Place, { to: { flow: flow.slug, topic: row.topic }, fontWeight: "semibold" }, row.topic), below(row)) },
    HEALTH, { key: "partitions", title: "Partitions", end: true, hideBelow: "md", show: (row) => number(row.partitions) }, ...LAG, ...AMOUNTS];
  return h(ApiTable, { path: `${api(flow.slug)}/topics`, noun: "topic", columns, keyOf: (row) => row.topic, refresh: 4 * REFRESH_S, empty: nothingCopied });
}

function Partitions({ flow, place }) {
  const columns = [
    { key: "topic", title: "Topic", breaks: "9rem", show: (row) => h(C.Span, { title: `on the target: ${row.remote_topic}` }, row.topic, h(C.Span, { hideFrom: "md" }, `-${row.partition}`), below(row)) },
    { key: "partition", title: "Partition", end: true, hideBelow: "md", show: (row) => number(row.partition) }, HEALTH, ...LAG,
    { key: "position", title: "Copied up to", end: true, hideBelow: "lg", show: (row) => number(row.position) }, ...AMOUNTS];
  const only = place.topic ? h(C.Tag.Root, { size: "lg" }, h(C.Tag.Label, null, place.topic),
    h(C.Tag.EndElement, null, h(Place, { to: { flow: flow.slug, tab: "partitions" }, "aria-label": "All topics", color: "fg" }, h(Shape, { name: "cross", boxSize: 3 })))) : null;
  return h(ApiTable, { path: `${api(flow.slug)}/partitions`, query: { topic: place.topic }, noun: "partition", columns, before: () => only,
    keyOf: (row) => `${row.topic}-${row.partition}`, refresh: 4 * REFRESH_S, empty: nothingCopied });
}

function Runs({ flow }) {
  const columns = [
    { key: "run", title: "Run", breaks: "9rem", show: (row) => h(C.Box, null, h(Place, { to: { flow: flow.slug, run: row.run }, fontWeight: "semibold" }, row.run), h(Below, null, h(When, { ms: endOf(row) }))) },
    { key: "outcome", title: "State", show: (row) => h(C.HStack, { gap: 1 }, h(State, { state: row.outcome || row.state || "never run" }), kindOf(row)) },
    { key: "at", title: "Ended", hideBelow: "md", show: (row) => h(When, { ms: endOf(row) }) },
    { key: "seconds", title: "Whole run", end: true, hideBelow: "md", show: (row) => duration(row.seconds) },
    { key: "records", title: "Records", end: true, hideBelow: "md", show: (row) => h(Records, row) },
    { key: "bytes", title: "Size", end: true, hideBelow: "lg", show: (row) => size(row.bytes) },
    { key: "records_behind", title: "Lag then", end: true, hideBelow: "lg", show: (row) => h(Count, { value: row.records_behind }) },
    { key: "lost", title: "Lost", end: true, hideBelow: "lg", show: (row) => h(Count, { value: row.lost, alarm: true }) }];
  return h(ApiTable, { path: `${api(flow.slug)}/runs`, noun: "run", columns, keyOf: (row) => row.run, refresh: REFRESH_S,
    empty: h(NeverRun, { flow }) });
}

/** A run that has not ended stands in its place by when it began or is due. */
const endOf = (row) => (["queued", "running"].includes(row.state) ? null : row.at);

const kindOf = (row) => {
  const kind = row.since >= 0 || row.kind === "backfill" ? "backfill" : row.partial ? "some topics" : "";
  return kind ? h(C.Badge, { variant: "outline", borderRadius: "full" }, kind) : null;
};

const ACTIONS = { written: "committed", shown: "translated", unchanged: "unchanged", held: "held", refused: "refused by a broker", deleted: "deleted" };

function Groups({ flow }) {
  const columns = [
    { key: "group", title: "Group", breaks: "8rem", show: (row) => h(C.Span, { fontWeight: "semibold" }, row.group, h(Below, null, row.partition < 0 ? "" : `${row.topic}-${row.partition}, on the source ${number(row.committed)}, on the target ${number(row.offset)}`)) },
    { key: "topic", title: "Topic", hideBelow: "md", breaks: "7rem", show: (row) => row.topic },
    { key: "partition", title: "Partition", end: true, hideBelow: "md", show: (row) => (row.partition < 0 ? "" : number(row.partition)) },
    { key: "committed", title: "On the source", end: true, hideBelow: "md", show: (row) => number(row.committed) },
    { key: "offset", title: "On the target", end: true, hideBelow: "md", show: (row) => number(row.offset) },
    { key: "lag", title: "Still to read", end: true, hideBelow: "lg", show: (row) => h(Count, { value: row.lag }) },
    { key: "kind", title: "Exact", hideBelow: "xl", show: (row) => row.kind },
    { key: "action", title: "Done", show: (row) => h(C.Badge, { colorPalette: paletteOf(row.action), variant: "subtle", borderRadius: "full" }, ACTIONS[row.action] ?? row.action) },
    { key: "reason", title: "Why", hideBelow: "lg", breaks: "12rem", show: (row) => h(C.Span, { color: "fg.muted", fontSize: "sm" }, row.reason) }];
  const before = (data) => (data?.groups ? h(C.Text, { fontSize: "sm", color: "fg.muted" }, [count(data.groups, "group"), ...Object.entries(data.actions).map(([action, many]) => `${number(many)} ${ACTIONS[action] ?? action}`)].join(", ")) : null);
  return h(ApiTable, { path: `${api(flow.slug)}/groups`, noun: "offset", search: "Search groups", columns, before, keyOf: (row) => `${row.group} ${row.topic} ${row.partition}`,
    empty: h(Empty, { title: "No groups yet" }, "A run lists here each consumer group's offset on the source and its counterpart on the target. With sync.group.offsets.enabled the run commits it on the target.") });
}
