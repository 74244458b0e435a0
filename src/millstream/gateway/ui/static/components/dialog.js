/** Dialogs: the browser's own, so focus, Escape and the rest of the page are as they should be. */
import { isAbort } from "../api.js";
import { fill, freshId, h } from "../dom.js";
import { field, input } from "./form.js";
import { complaint } from "./states.js";

/**
 * @typedef {Object} DialogOptions
 * @property {string} title
 * @property {import("../dom.js").Child} body
 * @property {string} [action] the text of the button that acts; without it there is only Close
 * @property {(dialog: HTMLDialogElement) => Promise<any>} [act] what the button does; what it raises is shown
 * @property {boolean} [isDanger]
 * @property {boolean} [isWide]
 * @property {() => boolean} [allowed] whether the button may be used now
 */

/**
 * Open a dialog; resolves with what `act` returned, or undefined if it was closed.
 * @param {DialogOptions} options
 * @returns {Promise<any>}
 */
export function openDialog({ title, body, action, act, isDanger, isWide, allowed }) {
  const id = freshId();
  const trouble = h("div", { class: "trouble" });
  const go = action ? h("button", { type: "submit", class: isDanger ? "danger" : "primary" }, action) : null;
  const close = h("button", { type: "button" }, action ? "Cancel" : "Close");
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id }, title),
    h("div", { class: "content" }, body),
    trouble,
    h("div", { class: "actions end" }, close, go),
  );
  const dialog = h("dialog", { "aria-labelledby": id, class: isWide ? "wide" : undefined }, form);
  const check = () => {
    if (go && allowed) go.disabled = !allowed();
  };
  form.addEventListener("input", check);
  check();
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    /** @type {any} */
    let result;
    close.addEventListener("click", () => dialog.close());
    const leave = () => dialog.close();
    window.addEventListener("hashchange", leave);
    dialog.addEventListener("close", () => {
      window.removeEventListener("hashchange", leave);
      dialog.remove();
      resolve(result);
    });
    form.addEventListener("submit", async (/** @type {Event} */ event) => {
      event.preventDefault();
      if (!go || go.disabled || !act) return;
      go.disabled = true;
      go.setAttribute("aria-busy", "true");
      fill(trouble);
      try {
        result = (await act(dialog)) ?? true;
        dialog.close();
      } catch (error) {
        if (!isAbort(error)) fill(trouble, complaint(error));
      } finally {
        go.disabled = false;
        go.removeAttribute("aria-busy");
        check();
      }
    });
  });
}

/**
 * Ask before something is destroyed; `typed` has to be typed first.
 * @param {{title: string, text: import("../dom.js").Child, action: string, typed?: string, act: () => Promise<any>}} options
 */
export function confirmDanger({ title, text, action, typed, act }) {
  const box = typed === undefined ? null : input();
  return openDialog({
    title,
    body: [h("div", {}, text), box && field("To confirm, type its name", box, { hint: typed })],
    action,
    isDanger: true,
    allowed: () => !box || box.value === typed,
    act,
  });
}
