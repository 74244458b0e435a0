/** Short news at the edge of the page, which go away by themselves. */
import { h } from "../dom.js";
import { icon } from "./icons.js";

const SHOWN_MS = 6000;
const MOST = 4;

/**
 * @param {string} text
 * @param {"good"|"warn"} [kind]
 */
export function toast(text, kind = "good") {
  const place = document.getElementById("toasts");
  if (!place) return;
  const note = h("div", { class: `toast ${kind}` }, icon(kind), h("span", {}, text));
  place.append(note);
  while (place.children.length > MOST) place.firstElementChild?.remove();
  setTimeout(() => note.remove(), SHOWN_MS);
}
