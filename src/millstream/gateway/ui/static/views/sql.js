/** SQL over streams and buckets: a query, its rows as a table, and bars where they make sense. */
import { isAbort, post } from "../api.js";
import { barChart } from "../components/bars.js";
import { area, field } from "../components/form.js";
import { card, heading } from "../components/page.js";
import { complaint } from "../components/states.js";
import { table } from "../components/table.js";
import { fill, h } from "../dom.js";
import { bytes, duration, number, plural } from "../format.js";
import { setQuery } from "../router.js";

const MOST_ROWS = 1000;
const MOST_BARS = 25;
const SHORT = 32; // characters that stay in one line: a time is as long
const LONG = 300; // characters of a value that is scrolled
const NUMBERS = /^(u?int|float|double|halffloat|decimal)/;
const EXAMPLE = "select subject, count(*) as messages, max(size) as largest\nfrom ORDERS\ngroup by subject";

/** @param {import("../app.js").Context} context */
export default async function sql(context) {
  context.setTitle("SQL");
  const query = area({ rows: 6, value: context.query.q ?? "", placeholder: EXAMPLE });
  const place = h("div", { "aria-live": "polite", class: "stack" });
  const run = h("button", { type: "button", class: "primary" }, "Run");
  const cancel = h("button", { type: "button", disabled: true }, "Cancel");
  /** @type {AbortController|null} */
  let running = null;

  async function ask() {
    const text = query.value.trim();
    if (!text || running) return;
    const mine = (running = new AbortController());
    setQuery({ q: text });
    run.disabled = true;
    cancel.disabled = false;
    place.setAttribute("aria-busy", "true");
    try {
      const signal = AbortSignal.any([mine.signal, context.scope.signal]);
      const found = await post("v2/sql", { query: text, rows: MOST_ROWS }, { signal });
      fill(place, result(found));
      context.announce(plural(found.rows.length, "row"));
    } catch (error) {
      fill(place, isAbort(error) ? h("p", { class: "dim" }, "The query was cancelled.") : complaint(error));
    } finally {
      running = null;
      run.disabled = false;
      cancel.disabled = true;
      place.removeAttribute("aria-busy");
    }
  }

  run.addEventListener("click", ask);
  cancel.addEventListener("click", () => running?.abort());
  query.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
  });
  const hint = "Streams by their names, buckets as kv.NAME, fields of payloads as data->>'$.item'; Ctrl+Enter runs it.";
  return [
    heading("SQL"),
    card("Query", field("Query", query, { hint, wide: true }), h("div", { class: "actions" }, run, cancel)),
    place,
  ];
}

/** @param {{columns: {name: string, type: string}[], rows: any[], statistics: any}} found */
function result(found) {
  const rows = table({
    caption: "Result",
    columns: found.columns.map((column) => ({
      name: column.name,
      isNumber: NUMBERS.test(column.type),
      cell: (/** @type {any} */ row) => cell(row[column.name]),
    })),
  });
  rows.show(found.rows);
  const bars = barsOf(found);
  return [bars && card("Chart", bars), card("Rows", rows.element, h("p", { class: "dim" }, told(found.statistics)))];
}

/** @param {any} value */
function cell(value) {
  if (value === null || value === undefined) return h("span", { class: "dim" }, "null");
  if (typeof value === "number") return number(value);
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  if (text.length > LONG) return h("div", { class: "mono long", tabindex: "0" }, text);
  return h("span", { class: text.length > SHORT ? "mono" : "mono nowrap" }, text);
}

/**
 * Bars for a few rows with names of their own: the first column that is no number names them, the first number
 * is shown.
 * @param {{columns: {name: string, type: string}[], rows: any[]}} found
 */
function barsOf({ columns, rows }) {
  const name = columns.find((column) => !NUMBERS.test(column.type));
  const amount = columns.find((column) => NUMBERS.test(column.type));
  if (!name || !amount || rows.length < 2 || rows.length > MOST_BARS) return null;
  const bars = rows.map((row) => ({ name: String(row[name.name] ?? "null"), value: Number(row[amount.name] ?? 0) }));
  if (new Set(bars.map((bar) => bar.name)).size < bars.length) return null;
  return barChart(`${amount.name} by ${name.name}`, bars);
}

/** @param {any} statistics */
function told(statistics) {
  const more = statistics.truncated ? "; there are more rows" : "";
  const scans = statistics.scans.map(
    (/** @type {any} */ scan) =>
      scan.table
        ? `; ${scan.table}: ${plural(scan.messages, "row")}, ${bytes(scan.bytes)} of ${plural(scan.files, "file")}`
        : `; ${scan.stream}: ${plural(scan.messages, "message")}, ${bytes(scan.bytes)} ` +
          (scan.transport === "arrow" ? "as Arrow" : "over the wire"),
  );
  return `${plural(statistics.rows, "row")}${more} in ${duration(statistics.seconds)}${scans.join("")}`;
}
