/** A tree whose branches are asked for when they are opened: subjects, keys. */
import { fill, h } from "../dom.js";
import { icon } from "./icons.js";
import { into } from "./states.js";

/**
 * @typedef {Object} Branch
 * @property {string} name of this level
 * @property {import("../dom.js").Child} [label] instead of the name
 * @property {import("../dom.js").Child} [more] at the end of the line
 * @property {number} children
 * @property {any} value
 */

/**
 * @typedef {Object} TreeOptions
 * @property {string} what a noun for messages: "subjects"
 * @property {(value: any) => Promise<{branches: Branch[], rest: number, isPartial?: boolean}>} load the level below `value`
 * @property {any} root
 */

/** @param {TreeOptions} options */
export function tree(options) {
  const element = h("div", { class: "tree" });
  into(element, options.what, () => level(options, options.root));
  return element;
}

/** @param {TreeOptions} options @param {any} value */
async function level(options, value) {
  const { branches, rest, isPartial } = await options.load(value);
  const isOnly = branches.length === 1;
  return [
    h(
      "ul",
      {},
      branches.map((branch) => line(options, branch, isOnly)),
    ),
    isPartial && h("p", { class: "dim" }, `There are too many ${options.what} to count: this is a part of them.`),
    rest > 0 &&
      h("p", { class: "dim" }, `${rest.toLocaleString("en-US")} more are not shown: search for what you need.`),
  ];
}

/** @param {TreeOptions} options @param {Branch} branch @param {boolean} isOnly it is opened at once */
function line(options, branch, isOnly) {
  const label = branch.label ?? h("span", { class: "mono" }, branch.name);
  if (!branch.children)
    return h(
      "li",
      {},
      h("div", { class: "leaf" }, h("span", { class: "knob" }), label, h("span", { class: "more" }, branch.more)),
    );
  const place = h("div", { class: "below", hidden: true });
  const knob = h(
    "button",
    { type: "button", class: "knob", "aria-expanded": "false", "aria-label": `Open ${branch.name}` },
    icon("right"),
  );
  const toggle = () => {
    const isOpen = knob.getAttribute("aria-expanded") === "true";
    knob.setAttribute("aria-expanded", String(!isOpen));
    place.hidden = isOpen;
    if (isOpen) fill(place);
    else into(place, options.what, () => level(options, branch.value));
  };
  knob.addEventListener("click", toggle);
  if (isOnly) toggle();
  return h("li", {}, h("div", { class: "leaf" }, knob, label, h("span", { class: "more" }, branch.more)), place);
}
