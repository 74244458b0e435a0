/** Fields with labels, and rows of pairs for headers. */
import { freshId, h } from "../dom.js";

/**
 * A field with its label.
 * @param {string} label
 * @param {any} control an input, select or textarea
 * @param {{hint?: string, wide?: boolean}} [options]
 */
export function field(label, control, { hint, wide } = {}) {
  const id = control.id || freshId();
  control.id = id;
  const note = hint ? h("span", { class: "hint", id: `${id}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: `field ${wide ? "wide" : ""}` }, h("label", { for: id }, label), control, note);
}

/** @param {Object<string, any>} [props] */
export const input = (props = {}) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...props });

/** @param {Object<string, any>} [props] */
export const area = (props = {}) => h("textarea", { rows: 6, spellcheck: "false", autocomplete: "off", ...props });

/**
 * @param {[string, string][]} choices value and text
 * @param {Object<string, any>} [props]
 */
export const select = (choices, props = {}) =>
  h(
    "select",
    props,
    choices.map(([value, text]) => h("option", { value }, text)),
  );

/**
 * @param {string} label
 * @param {Object<string, any>} [props]
 */
export function checkbox(label, props = {}) {
  const control = h("input", { type: "checkbox", ...props });
  return { control, element: h("label", { class: "check" }, control, h("span", {}, label)) };
}

/**
 * Search field.
 * @param {string} label
 * @param {string} value
 * @param {(text: string) => void} onInput
 */
export function searchField(label, value, onInput) {
  const control = h("input", {
    type: "search",
    value,
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
  });
  control.addEventListener("input", () => onInput(control.value));
  return control;
}

/**
 * Headers of a message: names and values, as many as are wanted.
 * @param {[string, string][]} [pairs]
 */
export function headerRows(pairs = []) {
  const rows = h("div", { class: "pairs" });
  /** @param {string} name @param {string} value */
  const add = (name, value) => {
    const row = h(
      "div",
      { class: "pair" },
      input({ value: name, placeholder: "Name", "aria-label": "Header name" }),
      input({ value, placeholder: "Value", "aria-label": "Header value" }),
      h(
        "button",
        { type: "button", class: "quiet", "aria-label": "Remove this header", on: { click: () => row.remove() } },
        "×",
      ),
    );
    rows.append(row);
    return row;
  };
  for (const [name, value] of pairs) add(name, value);
  const more = h(
    "button",
    { type: "button", class: "quiet", on: { click: () => add("", "").querySelector("input").focus() } },
    "+ Add a header",
  );
  return {
    element: h("fieldset", { class: "headers" }, h("legend", {}, "Headers"), rows, more),
    /** @returns {[string, string][]} */
    read() {
      return [...rows.children]
        .map((row) => /** @type {[string, string]} */ ([...row.querySelectorAll("input")].map((each) => each.value)))
        .filter(([name]) => name.trim() !== "");
    },
    /** @param {[string, string][]} next */
    set(next) {
      rows.textContent = "";
      for (const [name, value] of next) add(name, value);
    },
  };
}

/**
 * Headers in the shape of the API.
 * @param {[string, string][]} pairs
 * @returns {Object<string, string|string[]>}
 */
export function headersOf(pairs) {
  /** @type {Map<string, string[]>} */
  const named = new Map();
  for (const [name, value] of pairs) named.set(name, [...(named.get(name) ?? []), value]);
  return Object.fromEntries([...named].map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
}

/**
 * @param {Object<string, string|string[]>|undefined} headers
 * @returns {[string, string][]}
 */
export function pairsOf(headers) {
  return Object.entries(headers ?? {}).flatMap(([name, value]) =>
    [value].flat().map((each) => /** @type {[string, string]} */ ([name, each])),
  );
}
