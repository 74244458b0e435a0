/** Parts of pages: the heading, cards, lists of facts, tabs. */
import { h } from "../dom.js";

/**
 * @param {import("../dom.js").Child} title
 * @param {{path?: [string, string][], tags?: import("../dom.js").Child, actions?: import("../dom.js").Child}} [more]
 */
export function heading(title, { path = [], tags, actions } = {}) {
  return h(
    "div",
    { class: "heading" },
    path.length > 0 &&
      h(
        "nav",
        { class: "crumbs", "aria-label": "Where this is" },
        h(
          "ol",
          {},
          path.map(([name, at]) => h("li", {}, h("a", { href: at }, name))),
        ),
      ),
    h("div", { class: "row" }, h("h1", {}, title), tags, actions && h("div", { class: "actions end" }, actions)),
  );
}

/**
 * @param {string} title
 * @param {...import("../dom.js").Child} children
 */
export function card(title, ...children) {
  return h("section", { class: "card" }, title && h("h2", {}, title), children);
}

/**
 * A number with its name.
 * @param {string} name
 * @param {{hint?: string, live?: boolean}} [options]
 * @returns {{element: HTMLElement, value: HTMLElement, more: HTMLElement}}
 */
export function stat(name, { hint } = {}) {
  const value = h("dd", { class: "value" }, "–");
  const more = h("dd", { class: "more" });
  return { element: h("div", { class: "stat", title: hint }, h("dt", {}, name), value, more), value, more };
}

/** @param {...{element: HTMLElement}} stats */
export function stats(...stats) {
  return h(
    "dl",
    { class: "stats" },
    stats.map((each) => each.element),
  );
}

/** @param {[string, import("../dom.js").Child][]} pairs */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/**
 * Links between the parts of one thing.
 * @param {string} label
 * @param {[string, string][]} entries name and address
 * @param {string} current name
 */
export function tabs(label, entries, current) {
  return h(
    "nav",
    { class: "tabs", "aria-label": label },
    h(
      "ul",
      {},
      entries.map(([name, at]) =>
        h("li", {}, h("a", { href: at, "aria-current": name === current ? "page" : undefined }, name)),
      ),
    ),
  );
}

/**
 * How much of a limit is used.
 * @param {number} used @param {number} most below one: no limit
 * @param {string} text
 */
export function meter(used, most, text) {
  const share = most > 0 ? Math.min(100, (100 * used) / most) : 0;
  const bar = h(
    "div",
    { class: `meter ${share > 90 ? "high" : share > 75 ? "raised" : ""}`, "aria-hidden": "true" },
    h("div", {}),
  );
  bar.firstChild.style.width = `${share}%`;
  return h("div", { class: "use" }, h("span", {}, text), most > 0 && bar);
}

/** @param {string} text @param {string} [kind] */
export function tag(text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}
