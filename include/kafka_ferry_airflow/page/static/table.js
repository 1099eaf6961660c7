// Tables that the server searches, sorts and pages: ten rows or ten thousand are the same to the browser.

import { C, h, useApi, useCallback, usePlace, withQuery } from "./base.js";
import { number } from "./format.js";
import { Failure, Search, Shape, Waiting } from "./parts.js";

const ROWS = 50;

/** A column: its key in the rows, its title, and how a cell is shown; `end` sets numbers to the right. */
function Head({ column, sort, onSort }) {
  const down = sort === `-${column.key}`;
  const sorted = down || sort === column.key;
  const cell = { textAlign: column.end ? "end" : "start", whiteSpace: "nowrap", color: "fg.muted", fontWeight: "bold", hideBelow: column.hideBelow, scope: "col" };
  if (!onSort || column.still) return h(C.Table.ColumnHeader, cell, column.title);
  return h(C.Table.ColumnHeader, { ...cell, "aria-sort": sorted ? (down ? "descending" : "ascending") : "none" },
    h(C.chakra.button, { type: "button", onClick: () => onSort((sorted ? down : !column.end) ? column.key : `-${column.key}`),
      display: "inline-flex", alignItems: "center", gap: 1, cursor: "pointer", fontWeight: "inherit", whiteSpace: "nowrap",
      color: sorted ? "fg" : "inherit", flexDirection: column.end ? "row-reverse" : "row" },
      column.title, h(Shape, { name: sorted ? (down ? "down" : "up") : "both", boxSize: 3.5, opacity: sorted ? 1 : 0.35 })));
}

/** Rows as a table. */
export const Grid = ({ label, columns, rows, keyOf, sort, onSort, dim }) =>
  h(C.Table.ScrollArea, { opacity: dim ? 0.6 : 1, transition: "opacity .15s", tabIndex: 0, "aria-label": label, role: "region" },
    h(C.Table.Root, { striped: true, size: "sm", "aria-label": label },
      h(C.Table.Header, null, h(C.Table.Row, null, columns.map((column) => h(Head, { key: column.key, column, sort, onSort })))),
      h(C.Table.Body, null, rows.map((row) =>
        h(C.Table.Row, { key: keyOf(row) }, columns.map((column) =>
          h(C.Table.Cell, { key: column.key, textAlign: column.end ? "end" : "start", hideBelow: column.hideBelow,
            fontVariantNumeric: column.end ? "tabular-nums" : undefined, verticalAlign: column.top ? "top" : "middle",
            maxW: column.wide ? "30rem" : undefined, ...(column.breaks ? { overflowWrap: "anywhere", whiteSpace: "normal", minW: column.breaks } : {}) },
            column.show ? column.show(row) : String(row[column.key] ?? ""))))))));

function Pager({ total, first, shown, onPage }) {
  const last = first + shown;
  if (total <= ROWS) return null;
  return h(C.HStack, { as: "nav", "aria-label": "Pages", justifyContent: "flex-end", py: 3, gap: 2 },
    h(C.Text, { fontSize: "sm", color: "fg.muted", "aria-live": "polite" }, `${number(first + 1)}–${number(last)} of ${number(total)}`),
    h(C.IconButton, { size: "sm", variant: "outline", "aria-label": "Previous page", disabled: first === 0, onClick: () => onPage(first / ROWS - 1) },
      h(Shape, { name: "left" })),
    h(C.IconButton, { size: "sm", variant: "outline", "aria-label": "Next page", disabled: last >= total, onClick: () => onPage(first / ROWS + 1) },
      h(Shape, { name: "right" })));
}

/** A searchable, sortable table of the API; search, order and page are in the address. */
export function ApiTable({ path, query = {}, noun, columns, keyOf, search, before, empty, refresh = 0, pre = "" }) {
  const [place, go] = usePlace();
  const [searchKey, sortKey, pageKey] = [`${pre}search`, `${pre}sort`, `${pre}page`];
  const sort = place[sortKey] ?? "";
  const first = ROWS * Math.max(0, Number.parseInt(place[pageKey] ?? "0", 10) || 0);
  const { data, error, isWaiting } = useApi(
    withQuery(path, { ...query, search: place[searchKey], sort: sort.replace(/^-/, ""), order: sort.startsWith("-") ? "desc" : "", offset: first || "", limit: ROWS }),
    { refresh });
  const onSearch = useCallback((text) => go({ [searchKey]: text, [pageKey]: "" }, { replace: true }), [go, searchKey, pageKey]);
  const rows = data?.rows ?? [];
  const table = () => {
    if (error) return h(Failure, { error });
    if (!data) return h(Waiting);
    if (!rows.length && !place[searchKey] && !first) return empty ?? h(C.Text, { color: "fg.muted", py: 4 }, `No ${noun}s yet.`);
    if (!rows.length) return h(C.Text, { py: 4, role: "status" }, `No ${noun} matches.`);
    return h(Grid, { label: `${noun}s`, columns, rows, keyOf, sort, dim: isWaiting,
      onSort: (key) => go({ [sortKey]: key, [pageKey]: "" }, { replace: true }) });
  };
  return h(C.Box, null,
    h(C.Flex, { gap: 3, mb: 3, alignItems: "center", flexWrap: "wrap" },
      h(C.Box, { flex: "1 1 16rem", maxW: "28rem" }, h(Search, { label: search ?? `Search ${noun}s`, value: place[searchKey], onSearch })),
      before?.(data),
      data ? h(C.Text, { color: "fg.muted", fontSize: "sm", ms: "auto", "aria-live": "polite" }, `${number(data.total)} ${data.total === 1 ? noun : `${noun}s`}`) : null),
    table(),
    data ? h(Pager, { total: data.total, first, shown: rows.length, onPage: (page) => go({ [pageKey]: page || "" }) }) : null);
}
