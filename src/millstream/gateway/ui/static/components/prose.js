/** Sentences of the server for people: names in backticks as code, times in the reader's own zone. */
import { h } from "../dom.js";
import { time } from "../format.js";

const PARTS = /(`[^`]*`|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))/;

/** @param {string} text @returns {import("../dom.js").Child[]} */
export function prose(text) {
  return text.split(PARTS).map((part) => {
    if (/^`.*`$/.test(part)) return h("code", {}, part.slice(1, -1));
    if (/^\d{4}-\d\d-\d\dT/.test(part)) return h("time", { datetime: part, title: part }, time(part));
    return part;
  });
}

/** A text as a sentence: with a capital and a full stop. @param {string} text */
export function sentence(text) {
  const start = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(start) ? start : `${start}.`;
}
