// Two kinds of plots, drawn as SVG: a line that is filled below, and bars. Colours are Airflow's own.

import { C, h, useEffect, useRef, useState } from "./base.js";
import { at, clock, clockSeconds, day } from "./format.js";

export const HEIGHT = 168;
export const EDGE = { top: 10, right: 8, bottom: 22, left: 76 };
export const SMALL = { fontSize: "11px", fontVariantNumeric: "tabular-nums" };
// Seconds that make round marks: 5 s, 2 min, 6 h, 1 d.
export const SECONDS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];
export const token = (name) => `var(--chakra-colors-${name})`;
const COLOURS = { line: token("blue-500"), failed: token("failed-solid"), warning: token("warning-solid"), grid: token("border"), text: token("fg-muted") };

/** Up to four round numbers from 0 to a little above `most`; the distance is one of `steps`, if one is large enough. */
export function ticks(most, steps = []) {
  const rough = (most || 1) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [...steps, ...[1, 2, 2.5, 5, 10].map((times) => times * power)].find((one) => one >= rough) ?? rough;
  return Array.from({ length: Math.ceil((most || 1) / step) + 1 }, (_, index) => index * step);
}

export function useWidth() {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  return [box, width];
}

/** The lines of a plot, each with its number. */
export const Frame = ({ width, marks, y, format }) =>
  marks.map((mark) => h("g", { key: mark },
    h("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(mark), y2: y(mark), stroke: COLOURS.grid, strokeWidth: 1 }),
    h("text", { x: EDGE.left - 8, y: y(mark) + 4, textAnchor: "end", style: SMALL, fill: COLOURS.text }, format(mark))));

/**
 * A plot of `points`, each with `at` and `value`; a value of null is a gap.
 * A label says the same in words, and the table of runs has every number.
 */
export function Plot({ label, points, format, steps, bars = false, toneOf, onChoose }) {
  const [box, width] = useWidth();
  const [near, setNear] = useState(null);
  const known = points.filter((point) => point.value !== null && point.value !== undefined);
  const marks = ticks(Math.max(0, ...known.map((point) => point.value)), steps);
  const [from, until] = [points[0]?.at ?? 0, points.at(-1)?.at ?? 1];
  const inner = Math.max(1, width - EDGE.left - EDGE.right);
  const slot = inner / Math.max(1, points.length);
  const x = (point) => EDGE.left + (bars ? slot / 2 + ((inner - slot) * (point.at - from)) / Math.max(1, until - from) : (inner * (point.at - from)) / Math.max(1, until - from));
  const y = (value) => EDGE.top + (HEIGHT - EDGE.top - EDGE.bottom) * (1 - value / marks.at(-1));
  const last = known.at(-1);
  const words = known.length ? `${label}: ${known.length} runs from ${at(from)} to ${at(until)}, the last one ${format(last.value)}.` : `${label}: nothing yet.`;
  const move = (event) => {
    const place = event.clientX - event.currentTarget.getBoundingClientRect().left;
    setNear(known.reduce((best, point) => (!best || Math.abs(x(point) - place) < Math.abs(x(best) - place) ? point : best), null));
  };
  return h(C.Box, { ref: box, position: "relative", height: `${HEIGHT}px` },
    width ? h("svg", { width, height: HEIGHT, role: "img", "aria-label": words, onPointerMove: move, onPointerLeave: () => setNear(null),
      onClick: () => near && onChoose?.(near), style: { display: "block", cursor: near && onChoose ? "pointer" : "default", touchAction: "pan-y" } },
      h(Frame, { width, marks, y, format }),
      times(from, until, bars ? inner - slot : inner).map(([time, name]) =>
        h("text", { key: time, x: x({ at: time }), y: HEIGHT - 5, textAnchor: "middle", style: SMALL, fill: COLOURS.text }, name)),
      bars ? known.map((point) => bar(point, x, y, slot, near, toneOf)) : line(points, x, y),
      !bars && near ? h("circle", { cx: x(near), cy: y(near.value), r: 3.5, fill: COLOURS.line }) : null) : null,
    near ? h(Hint, { left: x(near), width, point: near, format }) : null);
}

const bar = (point, x, y, slot, near, toneOf) => {
  const wide = Math.max(1, Math.min(14, slot * 0.72));
  const top = Math.min(y(point.value), y(0) - 1);
  return h("rect", { key: point.at, x: x(point) - wide / 2, y: top, width: wide, height: y(0) - top, rx: Math.min(2, wide / 3),
    fill: COLOURS[toneOf?.(point) ?? "line"] ?? COLOURS.line, opacity: near && near !== point ? 0.55 : 0.9 });
};

/** A path for each stretch without a gap; a single point is a dot. */
function line(points, x, y) {
  const stretches = [[]];
  for (const point of points) {
    if (point.value === null || point.value === undefined) stretches.push([]);
    else stretches.at(-1).push(point);
  }
  return stretches.filter((stretch) => stretch.length).map((stretch) => {
    if (stretch.length === 1) return h("circle", { key: stretch[0].at, cx: x(stretch[0]), cy: y(stretch[0].value), r: 2, fill: COLOURS.line });
    const path = stretch.map((point, index) => `${index ? "L" : "M"}${x(point).toFixed(1)} ${y(point.value).toFixed(1)}`).join("");
    return h("g", { key: stretch[0].at },
      h("path", { d: `${path}L${x(stretch.at(-1))} ${y(0)}L${x(stretch[0])} ${y(0)}Z`, fill: COLOURS.line, opacity: 0.12 }),
      h("path", { d: path, fill: "none", stroke: COLOURS.line, strokeWidth: 1.6, strokeLinejoin: "round" }));
  });
}

/** Times below the plot, as many as fit: with seconds below ten minutes, days from a day and a half on. */
function times(from, until, inner) {
  if (until <= from) return from ? [[from, clock(from)]] : [];
  const many = Math.max(1, Math.min(6, Math.floor(inner / 90)));
  const span = until - from;
  const name = span > 36 * 3_600_000 ? day : span < 600_000 ? clockSeconds : clock;
  const all = Array.from({ length: many }, (_, index) => from + ((until - from) * (index + 0.5)) / many).map((time) => [time, name(time)]);
  return all.filter(([, said], index) => index === 0 || said !== all[index - 1][1]);
}

const Hint = ({ left, width, point, format }) =>
  h(C.Box, { position: "absolute", top: 0, left: `${Math.min(Math.max(left, 70), width - 70)}px`, transform: "translateX(-50%)", pointerEvents: "none",
    bg: "bg.panel", borderWidth: 1, borderRadius: "md", px: 2, py: 1, fontSize: "xs", boxShadow: "sm", whiteSpace: "nowrap", zIndex: 1 },
    h(C.Strong, null, format(point.value)), h(C.Box, { color: "fg.muted" }, at(point.at)));

/** A plot without axes, for a cell of a table. */
export function Spark({ values, label }) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const most = Math.max(1, ...known);
  const step = 84 / Math.max(1, values.length - 1);
  const points = values.map((value, index) => (value === null ? null : `${(index * step + 2).toFixed(1)},${(20 - (16 * value) / most).toFixed(1)}`)).filter(Boolean);
  return h("svg", { width: 88, height: 22, role: "img", "aria-label": label, style: { display: "block" } },
    h("polyline", { points: points.join(" "), fill: "none", stroke: COLOURS.line, strokeWidth: 1.5, strokeLinejoin: "round" }));
}
