/** Copy a text, with a word that it was done. */
import { h } from "../dom.js";
import { openDialog } from "./dialog.js";
import { toast } from "./toast.js";

/** @param {string} text @param {string} [what] */
export async function copyText(text, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
    toast(what);
  } catch {
    // No clipboard without TLS, except on this machine: let the user copy it.
    const box = h("textarea", { readonly: true, rows: 8, value: text, "aria-label": "Text to copy" });
    const opened = openDialog({ title: "Copy this", body: box });
    box.select();
    await opened;
  }
}

/** @param {string} label @param {() => string} text what it raises is shown */
export function copyButton(label, text) {
  const copy = () => {
    let found;
    try {
      found = text();
    } catch (error) {
      toast(/** @type {Error} */ (error).message, "warn");
      return;
    }
    copyText(found, `${label} copied`);
  };
  return h("button", { type: "button", class: "quiet", on: { click: copy } }, label);
}
