// The picture of a mirror's source offsets: a bar for each run, of what was copied and each reason why not.

import { C, h, useState } from "./base.js";
import { EDGE, Frame, HEIGHT, SMALL, ticks, token, useWidth } from "./charts.js";
import { at, brief, number } from "./format.js";

export const WORDS = {
  aborted: "of aborted transactions", control: "transaction markers", compacted: "compacted away on the source", lost: "lost before they were copied",
  "dead-lettered": "sent to the dead letter topic", returned: "came from the target, left out", "outside-window": "outside of the window", "copied-before": "copied before",
  filtered: "left out by a transform rule", unaccounted: "not accounted for",
};
const COLOURS = {
  copied: token("blue-500"), lost: token("failed-solid"), unaccounted: token("failed-solid"), "dead-lettered": token("warning-solid"),
  aborted: token("gray-400"), control: token("gray-300"), compacted: token("purple-400"), returned: token("teal-400"),
  "outside-window": token("cyan-300"), "copied-before": token("cyan-500"), filtered: token("pink-400"), other: token("orange-400"),
};
export const REASONS = Object.keys(COLOURS).filter((name) => name !== "copied" && name !== "other");

/** The parts of a bar from below, those without offsets left out. */
export function partsOf(bar, without) {
  const known = REASONS.map((reason) => [reason, bar.reasons[reason] ?? 0]);
  const other = Object.entries(bar.reasons).filter(([reason]) => !REASONS.includes(reason)).reduce((sum, [, many]) => sum + many, 0);
  return [...(without ? [] : [["copied", bar.copied]]), ...known, ["other", other]].filter(([, many]) => many > 0);
}

const total = (parts) => parts.reduce((sum, [, many]) => sum + many, 0);

/** Below this width, in pixels, two labels with their years may not fit, whatever the font. */
const NARROW = 400;

export function OffsetsPlot({ bars, without, onChoose }) {
  const [box, width] = useWidth();
  const [near, setNear] = useState(null);
  const all = bars.map((bar) => partsOf(bar, without));
  const marks = ticks(Math.max(0, ...all.map(total)));
  const inner = Math.max(1, width - EDGE.left - EDGE.right);
  const slot = inner / Math.max(1, bars.length);
  const x = (index) => EDGE.left + slot * (index + 0.5);
  const y = (value) => EDGE.top + (HEIGHT - EDGE.top - EDGE.bottom) * (1 - value / marks.at(-1));
  const runs = bars.reduce((sum, bar) => sum + bar.runs, 0);
  const words = bars.length ? `Source offsets of ${runs} runs from ${at(bars[0].at)} to ${at(bars.at(-1).at)}; the table below has every number.` : "Source offsets: nothing yet.";
  const move = (event) => {
    const place = event.clientX - event.currentTarget.getBoundingClientRect().left - EDGE.left;
    const index = Math.floor(place / slot);
    setNear(index >= 0 && index < bars.length ? index : null);
  };
  return h(C.Box, null,
    h(C.Box, { ref: box, position: "relative", height: `${HEIGHT}px` },
      width ? h("svg", { width, height: HEIGHT, role: "img", "aria-label": words, onPointerMove: move, onPointerLeave: () => setNear(null),
        onClick: () => near !== null && onChoose?.(bars[near]), style: { display: "block", cursor: near !== null ? "pointer" : "default", touchAction: "pan-y" } },
        h(Frame, { width, marks, y, format: brief }),
        bars.map((bar, index) => h(Bar, { key: `${bar.at} ${bar.backfill}`, bar, parts: all[index], x: x(index), y, slot, dim: near !== null && near !== index })),
        [...new Set([0, bars.length - 1])].filter((index) => bars[index]).map((index) =>
          h("text", { key: index, x: bars.length < 2 ? x(0) : index ? width - EDGE.right : EDGE.left, y: HEIGHT - 5, textAnchor: bars.length < 2 ? "middle" : index ? "end" : "start", style: SMALL, fill: token("fg-muted") }, at(bars[index].at).slice(width < NARROW ? 5 : 0, 16)))) : null,
      near !== null && bars[near] ? h(Hint, { bar: bars[near], left: x(near), width }) : null),
    h(Legend, { bars }));
}

/** A bar; above it, marks of what was lost, of a truncated log, and of a backfill. */
function Bar({ bar, parts, x, y, slot, dim }) {
  const wide = Math.max(1, Math.min(14, slot * 0.72));
  let below = 0;
  const boxes = parts.map(([name, many]) => {
    const from = below;
    below += many;
    // What was lost is never too thin to be seen.
    const tall = Math.max(y(from) - y(below), name === "lost" || name === "unaccounted" ? 2 : 0);
    return h("rect", { key: name, x: x - wide / 2, y: y(below), width: wide, height: tall, fill: COLOURS[name] });
  });
  const marks = [bar.lost || bar.reasons.unaccounted ? ["!", COLOURS.lost] : null, bar.rewinds ? ["↶", COLOURS.lost] : null, bar.backfill ? ["B", token("fg-muted")] : null].filter(Boolean);
  return h("g", { opacity: dim ? 0.55 : 0.95 }, boxes,
    marks.map(([mark, fill], index) => h("text", { key: mark, x, y: Math.max(9, y(below) - 3 - 10 * index), textAnchor: "middle", style: { ...SMALL, fontWeight: "bold" }, fill }, mark)));
}

const Hint = ({ bar, left, width }) =>
  h(C.Box, { position: "absolute", top: 0, left: `${Math.min(Math.max(left, 110), width - 110)}px`, transform: "translateX(-50%)", pointerEvents: "none",
    bg: "bg.panel", borderWidth: 1, borderRadius: "md", px: 2, py: 1, fontSize: "xs", boxShadow: "sm", whiteSpace: "nowrap", zIndex: 1 },
    h(C.Strong, null, `${number(bar.offsets)} offsets`), ` = ${number(bar.copied)} copied`,
    Object.entries(bar.reasons).map(([reason, many]) => h(C.Box, { key: reason, color: reason === "lost" ? "failed.fg" : undefined }, `+ ${number(many)} ${WORDS[reason] ?? reason}`)),
    bar.rewinds ? h(C.Box, { color: "failed.fg" }, `truncated: ${number(bar.rewound)} offsets had been copied`) : null,
    h(C.Box, { color: "fg.muted" }, `${bar.backfill ? "backfill, " : ""}${bar.runs > 1 ? `${bar.runs} runs until ` : `${bar.run}, `}${at(bar.at)}`));

function Legend({ bars }) {
  const names = ["copied", ...REASONS].filter((name) => bars.some((bar) => (name === "copied" ? bar.copied : bar.reasons[name])));
  return h(C.HStack, { gap: 3, flexWrap: "wrap", fontSize: "xs", color: "fg.muted", mt: 1 }, names.map((name) =>
    h(C.HStack, { key: name, gap: 1 }, h("svg", { width: 9, height: 9, "aria-hidden": true }, h("rect", { width: 9, height: 9, rx: 2, fill: COLOURS[name] })), WORDS[name] ?? name)),
    bars.some((bar) => bar.rewinds) ? h(C.Span, null, "↶ the source's log was truncated") : null,
    bars.some((bar) => bar.backfill) ? h(C.Span, null, "B backfill") : null);
}
