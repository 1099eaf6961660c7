// The page's small parts, of Chakra's components and with Airflow's own names of colours.

import { C, React, Router, h, useEffect, useRef, useState } from "./base.js";
import { NOTHING, ago, at, brief, count, number } from "./format.js";

const PALETTES = {
  verified: "success", success: "success", running: "running", queued: "queued", failed: "failed",
  incomplete: "failed", refused: "failed", "not applied": "warning", "groups not synced": "warning",
  "not verified": "warning", "not proved": "warning", "awaiting approval": "warning", overdue: "warning", "no pool": "failed", "never run": "none", held: "warning", written: "success", skipped: "skipped",
};
export const paletteOf = (state) => PALETTES[state] ?? "none";

const SHAPES = {
  check: "M5 12.500 10 17.500 19 7.500",
  cross: "M6.500 6.500 17.500 17.500M17.500 6.500 6.500 17.500",
  alert: "M12 4 21.500 20H2.500ZM12 10v4.500M12 17.200v.05",
  dash: "M6.500 12h11",
  turn: "M12 5a7 7 0 1 0 7 7",
  search: "M10.500 4a6.500 6.500 0 1 1 0 13 6.500 6.500 0 0 1 0-13M15.500 15.500 20 20",
  up: "M12 18.500V6M6.500 11 12 5.500 17.500 11",
  down: "M12 5.500V18M6.500 13 12 18.500 17.500 13",
  both: "M8 10 12 6 16 10M8 14 12 18 16 14",
  left: "M14.500 6 8.500 12 14.500 18",
  right: "M9.500 6 15.500 12 9.500 18",
  mirror: "M3 8h13M12.500 4.500 16 8 12.500 11.500M21 16H8M11.500 12.500 8 16 11.500 19.500",
  info: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18M12 11.500v5M12 7.800v.05",
};
const OF_STATE = {
  success: "check", failed: "cross", warning: "alert", running: "turn", queued: "dash", none: "dash", info: "info",
};

export const Shape = ({ name, ...props }) =>
  h(C.Icon, { boxSize: 4, flexShrink: 0, ...props },
    h("svg", { viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", strokeWidth: 2.2, strokeLinecap: "round",
      strokeLinejoin: "round", "aria-hidden": true, focusable: false }, h("path", { d: SHAPES[name] })));

/** Like Airflow's state of a run; `quiet` if there are many of them. */
export function State({ state, quiet = false, children, ...props }) {
  const palette = paletteOf(state);
  return h(C.Badge, { borderRadius: "full", colorPalette: palette, color: quiet ? `${palette}.fg` : `${palette}.contrast`, fontSize: "sm",
    px: 2, py: quiet ? 0.5 : 1, variant: quiet ? "subtle" : "solid", "data-testid": "mirror-state", flexShrink: 0, ...props },
    h(Shape, { name: OF_STATE[palette] ?? "dash", boxSize: 3.5 }), children ?? state);
}

export const Label = ({ children }) =>
  h(C.Heading, { as: "dt", size: "xs", color: "fg.muted", fontWeight: "bold", whiteSpace: "nowrap" }, children);

/** A number with its name above it. */
export const Stat = ({ label, children, ...props }) =>
  h(C.Box, { minW: 0, ...props }, h(Label, null, label),
    h(C.Box, { as: "dd", fontSize: "md", mt: 1, fontVariantNumeric: "tabular-nums" }, children));

export const Stats = ({ children }) =>
  h(C.Grid, { as: "dl", columnGap: 6, rowGap: 3, m: 0, templateColumns: "repeat(auto-fill, minmax(min(7.5rem, 45%), 1fr))" },
    children);

/** What a phone shows below a row's name instead of in separate columns. */
export const Below = ({ children }) =>
  h(C.Box, { as: "span", display: { base: "block", md: "none" }, fontSize: "xs", fontWeight: "normal", whiteSpace: "normal", color: "fg.muted", mt: 0.5 }, children);

/** A time relative to now; the time itself as a tooltip. */
export function When({ ms, quiet = false }) {
  if (!ms) return h(C.Span, { color: "fg.muted" }, NOTHING);
  return h("time", { dateTime: new Date(ms).toISOString(), title: at(ms), style: { whiteSpace: "nowrap" } },
    quiet ? at(ms) : ago(ms));
}

/** A number, shortened if it is long; the whole number as a tooltip. */
export const Count = ({ value, alarm }) =>
  h(C.Span, { title: number(value), whiteSpace: "nowrap",
    color: alarm && value ? "failed.fg" : value ? undefined : "fg.muted", fontWeight: alarm && value ? "semibold" : undefined },
    brief(value));

/** Records; heartbeats are counted apart, since no user asks for them. */
export const Records = ({ records, heartbeats = 0 }) =>
  h(React.Fragment, null, h(Count, { value: records && records - heartbeats }), heartbeats ? ` and ${count(heartbeats, "heartbeat")}` : "");

export const Title = ({ children, ...props }) =>
  h(C.Heading, { size: "md", as: "h2", ...props }, children);

/** A box with a head, like Airflow's cards. */
export const Card = ({ title, aside, children, ...props }) =>
  h(C.Box, { as: "section", borderWidth: 1, borderColor: "border.emphasized", borderRadius: 8, overflow: "hidden", minW: 0, ...props },
    h(C.Flex, { bg: "bg.muted", px: 3, py: 2, alignItems: "center", justifyContent: "space-between", gap: 3 },
      h(C.Heading, { as: "h2", size: "sm" }, title), aside),
    h(C.Box, { p: 3 }, children));

/** What is missing, and what to do about it. */
export const Empty = ({ title, children }) =>
  h(C.VStack, { py: 12, px: 4, gap: 2, textAlign: "center", role: "status" },
    h(C.Heading, { size: "lg", as: "h2" }, title), h(C.Box, { color: "fg.muted", maxW: "38rem" }, children));

/** What went wrong when the API was asked. */
export function Failure({ error }) {
  if (error.status === 401) {
    const back = encodeURIComponent(location.href);
    return h(Empty, { title: "You are no longer logged in" },
      h(C.Link, { href: new URL(`auth/login?next=${back}`, document.baseURI).href, color: "fg.info" }, "Log in again"));
  }
  const titles = { 403: "You may not see this", 404: "Not found" };
  return h(Empty, { title: titles[error.status] ?? "This cannot be shown at the moment" },
    error.status ? error.message : "Airflow's API server does not answer. The page tries again by itself.");
}

export const Waiting = () =>
  h(C.VStack, { align: "stretch", gap: 3, py: 2, role: "status", "aria-label": "Loading" },
    [18, 10, 10, 10].map((height, at) => h(C.Skeleton, { key: at, height })));

/** Searches while the user types, and keeps the search in the page's address. */
export function Search({ value = "", onSearch, label }) {
  const [text, setText] = useState(value);
  const last = useRef(value);
  useEffect(() => {
    if (value !== last.current) setText((last.current = value));
  }, [value]);
  useEffect(() => {
    if (text === last.current) return undefined;
    const timer = setTimeout(() => onSearch((last.current = text)), 250);
    return () => clearTimeout(timer);
  }, [text, onSearch]);
  return h(C.InputGroup, { startElement: h(Shape, { name: "search", color: "fg.muted" }) },
    h(C.Input, { type: "search", "aria-label": label, placeholder: label, value: text, onChange: (event) => setText(event.target.value) }));
}

/** One of a few, like Airflow's filters. */
export const Choice = ({ label, options, value, onChoose }) =>
  h(C.ButtonGroup, { attached: true, size: "sm", variant: "outline", role: "group", "aria-label": label, flexWrap: "wrap" },
    options.map(([key, name]) =>
      h(C.Button, { key, variant: key === value ? "solid" : "outline", "aria-pressed": key === value, onClick: () => onChoose(key) }, name)));

/** Like the tabs of a DAG. */
export const Tabs = ({ tabs, current, hrefOf }) =>
  h(C.Flex, { as: "nav", "aria-label": "Parts of this mirror", alignItems: "center", borderBottomWidth: 1, mb: 3, mt: 4, overflowX: "auto", overflowY: "hidden" },
    tabs.map(([key, name, many]) =>
      h(Router.Link, { key, to: hrefOf(key), "aria-current": key === current ? "page" : undefined,
        // On a phone, the one that is open may be out of sight.
        ref: key === current ? (link) => link?.scrollIntoView({ block: "nearest", inline: "nearest" }) : undefined },
        h(C.Center, { borderBottomColor: "border.info", borderBottomWidth: key === current ? 3 : 0,
          color: key === current ? "fg" : "fg.muted", fontWeight: "bold", height: "40px", mb: "-1px",
          pb: key === current ? 0 : "3px", px: 4, gap: 2, whiteSpace: "nowrap", _hover: { color: "fg" } },
          name, many === undefined ? null : h(C.Badge, { size: "sm", variant: "subtle", borderRadius: "full" }, brief(many))))));

export const Crumbs = ({ children }) =>
  h(C.Breadcrumb.Root, { size: "sm", mb: 2 }, h(C.Breadcrumb.List, { flexWrap: "wrap" },
    React.Children.toArray(children).flatMap((child, place) => [
      place ? h(C.Breadcrumb.Separator, { key: `s${place}` }, "/") : null, h(C.Breadcrumb.Item, { key: place }, child)])));
