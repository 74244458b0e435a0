/** The body of a message in a form of one's choice. */
import { fill, h, setText } from "../dom.js";
import { bytes as size } from "../format.js";
import { FORMS, show } from "../decode/forms.js";
import { copyButton } from "./copy.js";
import { select } from "./form.js";

/**
 * @param {Uint8Array} body
 * @param {{form?: string, onForm?: (form: string) => void}} [options]
 */
export function payload(body, { form = "auto", onForm } = {}) {
  const shown = h("pre", { class: "payload", tabindex: "0", "aria-label": "Body of the message" });
  const note = h("span", { class: "dim" });
  const chooser = select(FORMS, { value: form, "aria-label": "Show the body as" });
  let text = "";
  const draw = () => {
    const result = show(body, chooser.value);
    text = result.text;
    setText(shown, text);
    const name = FORMS.find(([value]) => value === result.form)?.[1] ?? "";
    fill(note, `${size(body.length)}${chooser.value === "auto" ? `, shown as ${name}` : ""}. ${result.note}`);
  };
  chooser.addEventListener("change", () => {
    onForm?.(chooser.value);
    draw();
  });
  draw();
  if (!body.length) return h("p", { class: "dim" }, "The message has no body.");
  return h(
    "div",
    {},
    h(
      "div",
      { class: "row tools" },
      chooser,
      note,
      copyButton("Copy", () => text),
    ),
    shown,
  );
}
