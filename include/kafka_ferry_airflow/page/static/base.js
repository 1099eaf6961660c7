// What Airflow's pages share with plugins' apps: React, Chakra UI with Airflow's theme, and its router.
// Nothing is loaded from anywhere else, and there is no build step: this file is what the browser runs.

export const { React, ChakraUI: C, ReactRouterDOM: Router } = globalThis;
const CONTROL = /[^\P{Cc}\n\t]|[\p{Cf}\p{Cs}\u2028\u2029]/gu;
const WRITTEN = new Set(["title", "aria-label", "placeholder"]);

/** A text with each control character, and each without a width, as its number: names are those of strangers. */
export const shown = (text) =>
  typeof text === "string" ? text.replace(CONTROL, (it) => `\\u{${it.codePointAt(0).toString(16)}}`) :
    Array.isArray(text) ? text.map(shown) : text;

/** React's elements; all text of the page comes through here. */
export const h = (type, props, ...children) => React.createElement(
  type,
  props && Object.fromEntries(Object.entries(props).map(([name, it]) => [name, WRITTEN.has(name) ? shown(it) : it])),
  ...children.map(shown),
);
export const { useCallback, useEffect, useMemo, useRef, useState } = React;

const ROOT = new URL("kafka-ferry/", document.baseURI);
const answers = new Map();
const KEPT = 60;

/** The address of a path that the plugin's application serves. */
export const address = (path) => new URL(path, ROOT).href;

/** The path of a flow's part of the API; every piece is escaped. */
export const api = (...pieces) => `api/flows${pieces.map((piece) => `/${encodeURIComponent(piece)}`).join("")}`;

/** `path` with a query of the parameters that have a value. */
export const withQuery = (path, query) => {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  return said.length ? `${path}?${new URLSearchParams(said)}` : path;
};

async function ask(path, signal) {
  const answer = await fetch(address(path), { credentials: "same-origin", signal });
  if (answer.ok) return answer.json();
  const said = await answer.json().catch(() => ({}));
  const error = new Error(typeof said.detail === "string" ? said.detail : answer.statusText);
  error.status = answer.status;
  throw error;
}

/**
 * The API's answer, requested again every `refresh` seconds while the page is visible.
 * Until a new answer arrives, the last one stays, so that nothing jumps.
 */
export function useApi(path, { refresh = 0 } = {}) {
  const [state, setState] = useState(() => ({ path, data: path ? answers.get(path) : undefined }));
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    let timer;
    const again = async () => {
      if (!document.hidden) {
        try {
          const data = await ask(path, stop.signal);
          answers.delete(path);
          answers.set(path, data);
          if (answers.size > KEPT) answers.delete(answers.keys().next().value);
          setState({ path, data });
        } catch (error) {
          if (stop.signal.aborted) return;
          setState((last) => ({ path, data: error.status ? undefined : last.data, error }));
        }
      }
      if (refresh && !stop.signal.aborted) timer = setTimeout(again, refresh * 1000);
    };
    if (answers.has(path)) setState({ path, data: answers.get(path) });
    again();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, refresh]);
  return { data: state.data, error: state.error, isWaiting: state.path !== path && !answers.has(path) };
}

/** The current place on the page, kept in the browser's address; `go` changes parts of it. */
export function usePlace() {
  const [params, setParams] = Router.useSearchParams();
  const place = Object.fromEntries(params);
  const go = useCallback(
    (changes, options) =>
      setParams((now) => {
        const next = new URLSearchParams(now);
        for (const [name, value] of Object.entries(changes)) {
          if (value === undefined || value === null || value === "") next.delete(name);
          else next.set(name, String(value));
        }
        return next;
      }, options),
    [setParams],
  );
  return [place, go];
}

/** A link to another place of this page. */
export function Place({ to, children, ...props }) {
  const query = new URLSearchParams(Object.entries(to).filter(([, value]) => value));
  return h(C.Link, { asChild: true, color: "fg.info", display: "inline", ...props },
    h(Router.Link, { to: { search: query.size ? `?${query}` : "" } }, children));
}

/** A link to another page of Airflow. */
export const Inside = ({ to, children, ...props }) =>
  h(C.Link, { asChild: true, color: "fg.info", ...props }, h(Router.Link, { to }, children));

/** A link that opens a separate page: a report, or Data Docs. */
export const Outside = ({ path, children, ...props }) =>
  h(C.Link, { href: address(path), target: "_blank", rel: "noopener", color: "fg.info", ...props }, children);
