/** What changes between two configurations, key by key. */
import { h } from "../dom.js";

/** @typedef {{key: string, before: string|undefined, after: string|undefined}} Change */

/**
 * @param {any} before
 * @param {any} after
 * @param {string} [prefix]
 * @returns {Change[]}
 */
export function changes(before, after, prefix = "") {
  if (same(before, after)) return [];
  if (!isObject(before) || !isObject(after))
    return [{ key: prefix || "(all)", before: textOf(before), after: textOf(after) }];
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key) => changes(before[key], after[key], prefix ? `${prefix}.${key}` : key));
}

/** @param {any} value */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {any} a @param {any} b */
function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** @param {any} value */
function textOf(value) {
  return value === undefined ? undefined : JSON.stringify(value);
}

/** @param {Change[]} list */
export function diff(list) {
  if (!list.length) return h("p", { class: "dim" }, "Nothing changes.");
  return h(
    "table",
    { class: "diff" },
    h("caption", { class: "sr" }, "Changes"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Key", "Now", "After"].map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      {},
      list.map((change) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, h("code", {}, change.key)),
          h(
            "td",
            {},
            change.before === undefined ? h("span", { class: "dim" }, "not set") : h("del", {}, change.before),
          ),
          h("td", {}, change.after === undefined ? h("span", { class: "dim" }, "not set") : h("ins", {}, change.after)),
        ),
      ),
    ),
  );
}
