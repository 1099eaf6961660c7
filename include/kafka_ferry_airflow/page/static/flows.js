// All mirrors.

import { C, Inside, Place, h, useApi, useCallback, useMemo, usePlace } from "./base.js";
import { brief, count, duration } from "./format.js";
import { Below, Choice, Count, Empty, Failure, Search, Shape, State, Title, Waiting, When, paletteOf } from "./parts.js";
import { Grid } from "./table.js";
import { Spark } from "./charts.js";

const REFRESH_S = 15;
const KINDS = [["all", "All"], ["attention", "Needs attention"], ["running", "Running"]];

const LATE_MS = 5 * 60 * 1000;

/** Whether its next run should have begun: Airflow's scheduler, or its pool, lets none begin. */
export const isOverdue = ({ dag, activity }) => Boolean(dag?.next_run_at && !dag.paused && !dag.question && !activity && dag.next_run_at < Date.now() - LATE_MS);

export const needsAttention = (flow) =>
  ["failed", "warning"].includes(paletteOf(flow.status)) || Boolean(flow.last?.lost || flow.last?.drifts || flow.dag?.question || flow.dag?.failed_backfills?.length || flow.missing_pool) || isOverdue(flow);

/** A run that waits for a person, and since when. */
export const Approval = ({ flow }) => {
  const asked = flow.dag?.question;
  return asked ? h(Inside, { to: `/dags/${flow.dag_id}/runs/${encodeURIComponent(asked.run)}/tasks/${encodeURIComponent(asked.task)}/required_actions` },
    h(State, { state: "awaiting approval" }, "awaiting approval ", h(When, { ms: asked.since }))) : null;
};

/** Until when all that the flow copies is proved: single partitions may be, before a run has proved all of it. */
export const VerifiedUntil = ({ current }) => (current && !current.verified_until ? "not all of it yet" : h(When, { ms: current?.verified_until }));

const COLUMNS = [
  { key: "name", title: "Mirror", breaks: "8rem", show: (flow) => h(C.Box, null,
    h(Place, { to: { flow: flow.slug }, fontWeight: "semibold", whiteSpace: { base: "normal", md: "nowrap" } }, h(Names, { flow })),
    flow.current ? h(Below, null, `lag ${brief(flow.current.records_behind)}, verified until `, h(VerifiedUntil, { current: flow.current })) : null) },
  { key: "status", title: "State", show: (flow) => h(C.HStack, { gap: 1, flexWrap: { base: "wrap", md: "nowrap" } }, h(State, { state: flow.status }), flow.dag?.question ? h(Approval, { flow }) : flow.activity ? h(State, { state: flow.activity }) : null,
    isOverdue(flow) ? h(State, { state: "overdue" }) : null,
    flow.missing_pool ? h(State, { state: "no pool" }) : null,
    flow.dag?.paused ? h(C.Badge, { variant: "outline", borderRadius: "full" }, "paused") : null) },
  { key: "behind", title: "Lag, last run", end: true, hideBelow: "md", show: (flow) => h(Count, { value: flow.current?.records_behind }) },
  { key: "seconds", title: "Lag, time", end: true, hideBelow: "md", show: (flow) => duration(flow.current?.seconds_behind) },
  { key: "trend", title: "Lag, last runs", hideBelow: "xl", still: true, show: (flow) => h(Spark, { values: flow.behind, label: `Lag after each of the last ${flow.behind.length} runs` }) },
  { key: "verified", title: "Verified until", hideBelow: "md", show: (flow) => h(VerifiedUntil, { current: flow.current }) },
  { key: "lost", title: "Lost", end: true, hideBelow: "md", show: (flow) => h(Count, { value: flow.last?.lost, alarm: true }) },
  { key: "drifts", title: "Drift", end: true, hideBelow: "md", show: (flow) => h(Count, { value: flow.last?.drifts, alarm: true }) },
  { key: "last", title: "Last run", hideBelow: "lg", show: (flow) => (flow.last ? h(Place, { to: { flow: flow.slug, run: flow.last.run } }, h(When, { ms: flow.last.finished_at })) : h(When, {})) },
  { key: "next", title: "Next run", hideBelow: "lg", show: (flow) => (flow.dag?.question ? "after the approval" : h(When, { ms: flow.dag?.next_run_at })) },
];
const ORDER = ["failed", "warning", "running", "queued", "none", "success"];
const VALUES = {
  name: (flow) => flow.name, status: (flow) => ORDER.indexOf(paletteOf(flow.status)), behind: (flow) => flow.current?.records_behind,
  seconds: (flow) => flow.current?.seconds_behind, verified: (flow) => flow.current?.verified_until, lost: (flow) => flow.last?.lost,
  drifts: (flow) => flow.last?.drifts, last: (flow) => flow.last?.finished_at, next: (flow) => flow.dag?.next_run_at,
};

export const Names = ({ flow }) => h(C.HStack, { as: "span", display: "inline-flex", gap: 1.5, flexWrap: { base: "wrap", md: "nowrap" } },
  flow.source, h(C.Span, { "aria-label": "to", color: "fg.muted" }, "→"), flow.target);

function sorted(flows, sort) {
  const value = VALUES[sort.replace(/^-/, "")];
  if (!value) return flows;
  const sign = sort.startsWith("-") ? -1 : 1;
  const known = flows.filter((flow) => value(flow) !== undefined && value(flow) !== null);
  const rest = flows.filter((flow) => !known.includes(flow));
  return [...known.sort((a, b) => sign * (value(a) > value(b) ? 1 : value(a) < value(b) ? -1 : 0)), ...rest];
}

export function Flows() {
  const [place, go] = usePlace();
  const { data, error } = useApi("api/flows", { refresh: REFRESH_S });
  const { search = "", sort = "", show = "all" } = place;
  const rows = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = (data?.flows ?? []).filter((flow) =>
      words.every((word) => `${flow.name} ${flow.slug} ${flow.status}`.toLowerCase().includes(word)) &&
      (show === "all" || (show === "running" ? flow.activity : needsAttention(flow))));
    return sorted(chosen, sort);
  }, [data, search, sort, show]);
  const onSearch = useCallback((text) => go({ search: text }, { replace: true }), [go]);
  if (error && !data) return h(Failure, { error });
  if (!data) return h(Waiting);
  const all = data.flows;
  const problems = h(Problems, { problems: data.problems });
  if (!all.length) return h(C.Box, null, problems, h(Nothing, { folder: data.folder }));
  return h(C.Box, null, problems,
    h(C.VStack, { align: "stretch", gap: 2, mb: 3 },
      h(Search, { label: "Search Mirrors", value: search, onSearch }),
      h(Choice, { label: "Which mirrors", options: KINDS.map(([key, name]) => [key, key === "attention" ? `${name} (${all.filter(needsAttention).length})` : name]),
        value: show, onChoose: (key) => go({ show: key === "all" ? "" : key }, { replace: true }) })),
    h(Title, { as: "h1", my: 3 }, count(rows.length, "Mirror")),
    rows.length
      ? h(Grid, { label: "Mirrors", columns: COLUMNS, rows, keyOf: (flow) => flow.slug, sort, onSort: (key) => go({ sort: key }, { replace: true }) })
      : h(C.Text, { role: "status" }, "No mirror matches."));
}

const Nothing = ({ folder }) =>
  h(Empty, { title: "No mirrors yet" },
    folder ? ["Write a file that says which cluster is copied to which one, and put it into ", h(C.Code, { key: "folder" }, folder), ". The mirror appears here, and as a DAG, within a minute."]
      : "There is no mirror whose DAG you may read.");

/** Files that hold no valid flow, or name what there is not: for users who may see import errors. */
export const Problems = ({ problems }) =>
  problems.length ? h(C.Alert.Root, { status: "error", role: "alert", mb: 3, alignItems: "flex-start" }, h(Shape, { name: "alert", mt: 0.5 }),
    h(C.Alert.Content, null, h(C.Alert.Title, null, `${count(problems.length, "problem")} with the files of mirrors`),
      h(C.Alert.Description, null, problems.map((problem) => h(C.Text, { key: problem, overflowWrap: "anywhere" }, problem))))) : null;
