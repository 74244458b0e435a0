/**
 * Elements without markup: text from outside is only ever set as text.
 *
 * `h("p", {class: "note"}, "one ", h("b", {}, name))` makes a paragraph.  A child is an element, a text, a
 * number, a list of these, or nothing.
 */

/** @typedef {Node|string|number|null|undefined|false|any[]} Child lists hold children, too */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {any} element
 * @param {Object<string, any>} props attributes; `on` holds listeners, `data` data attributes, and `value`,
 *   `checked`, `disabled`, `hidden`, `selected`, `open`, `indeterminate` are properties
 */
function apply(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      for (const [key, text] of Object.entries(value)) element.dataset[key] = String(text);
    } else if (PROPERTIES.has(name)) {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open", "indeterminate"]);

/**
 * @param {Node} parent
 * @param {Child[]} children
 */
export function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) append(parent, child);
    else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * Make an element.
 * @param {string} tag
 * @param {Object<string, any>} [props]
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, props = {}, ...children) {
  const element = /** @type {any} */ (document.createElement(tag));
  const { value, ...rest } = props;
  apply(element, rest);
  append(element, children);
  if (value !== undefined && value !== null) element.value = value; // of a select: after its options
  return element;
}

/**
 * Make an element of a drawing.
 * @param {string} tag
 * @param {Object<string, any>} [props]
 * @param {...Child} children
 * @returns {any}
 */
export function svg(tag, props = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  apply(element, props);
  append(element, children);
  return element;
}

/**
 * Replace all children.
 * @param {Node} parent
 * @param {...Child} children
 */
export function fill(parent, ...children) {
  parent.textContent = "";
  append(parent, children);
  return parent;
}

/**
 * Set the text of an element if it is another one, so that a screen reader is not told what it knows.
 * @param {Node} element
 * @param {string|number} text
 */
export function setText(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

let count = 0;

/** @returns {string} an id that no other element has */
export function freshId() {
  count += 1;
  return `m${count}`;
}
