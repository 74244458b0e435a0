/**
 * A configuration of JetStream: shown as JSON, edited as JSON, compared before it is applied, and checked by
 * the server.  Its text is never parsed and written again on the way, so no digit of a number is lost.
 */
import { call } from "../api.js";
import { copyButton } from "../components/copy.js";
import { openDialog } from "../components/dialog.js";
import { changes, diff } from "../components/diff.js";
import { area, field } from "../components/form.js";
import { changeButton, complaint } from "../components/states.js";
import { toast } from "../components/toast.js";
import { indent } from "../decode/json_text.js";
import { fill, h } from "../dom.js";

const UNITS = "Durations are in nanoseconds (1 s is 1000000000); -1 is no limit.";

/**
 * @param {import("../app.js").Context} context
 * @param {string} path
 * @param {string} what
 */
export async function configEditor(context, path, what) {
  const place = h("div", {});
  await reload();

  async function read() {
    const response = await call("GET", path, { signal: context.scope.signal });
    return { text: indent((await response.text()).trim()), etag: response.headers.get("ETag") ?? "" };
  }

  async function reload() {
    showText(await read());
  }

  /** @param {{text: string, etag: string}} present */
  function showText(present) {
    const edit = changeButton("Edit", () => showEditor(present), { class: "primary" });
    fill(
      place,
      h(
        "div",
        { class: "row tools" },
        edit,
        copyButton("Copy", () => present.text),
        h("span", { class: "dim" }, UNITS),
      ),
      h("pre", { class: "payload config", tabindex: "0", "aria-label": what }, present.text),
    );
  }

  /** @param {{text: string, etag: string}} present */
  function showEditor(present) {
    const text = area({ rows: Math.min(32, present.text.split("\n").length + 1), value: present.text });
    const trouble = h("div", {});
    const review = h("button", { type: "button", class: "primary" }, "Review changes");
    review.addEventListener("click", async () => {
      fill(trouble);
      let after;
      try {
        after = JSON.parse(text.value);
      } catch (error) {
        fill(trouble, complaint(new Error(`This is not JSON: ${/** @type {Error} */ (error).message}`)));
        return;
      }
      if (await apply(present, text.value, after)) await reload();
    });
    const cancel = h("button", { type: "button", on: { click: () => showText(present) } }, "Cancel");
    fill(place, field(`Edit ${what}`, text, { hint: UNITS }), trouble, h("div", { class: "actions" }, review, cancel));
    text.focus();
  }

  /** @param {{text: string, etag: string}} present @param {string} text @param {any} after */
  function apply(present, text, after) {
    const list = changes(JSON.parse(present.text), after);
    return openDialog({
      title: "Apply these changes?",
      isWide: true,
      body: [
        diff(list),
        h(
          "p",
          { class: "dim" },
          "The server checks them, and refuses if somebody else changed the configuration meanwhile.",
        ),
      ],
      action: "Apply",
      allowed: () => list.length > 0,
      act: async () => {
        await call("PUT", path, {
          body: text,
          headers: { "Content-Type": "application/json", "If-Match": present.etag },
        });
        toast("The configuration is changed");
      },
    });
  }

  return place;
}
