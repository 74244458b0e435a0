/** Messages that are sent again and again, kept in this browser. */
import { openDialog } from "../components/dialog.js";
import { field, input, select } from "../components/form.js";
import { toast } from "../components/toast.js";
import { fill, h } from "../dom.js";

const KEPT = "millstream.templates";
const MOST = 50;
const LONGEST = 64 * 1024;

/** @returns {Object<string, any>} */
function stored() {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    return typeof found === "object" && found ? found : {};
  } catch {
    return {};
  }
}

/**
 * @param {() => any} save what the form has
 * @param {(kept: any) => void} load
 */
export function templates(save, load) {
  const chooser = select([]);
  const drop = h("button", { type: "button", class: "quiet" }, "Forget");
  const keep = h("button", { type: "button", class: "quiet" }, "Keep as a template…");
  const draw = (/** @type {string} */ chosen) => {
    const names = Object.keys(stored()).sort();
    fill(
      chooser,
      h("option", { value: "" }, names.length ? "Choose a template" : "No templates yet"),
      names.map((name) => h("option", { value: name }, name)),
    );
    chooser.value = chosen;
    drop.disabled = !chosen;
  };
  chooser.addEventListener("change", () => {
    const found = stored()[chooser.value];
    if (found) load(found);
    drop.disabled = !chooser.value;
  });
  drop.addEventListener("click", () => {
    const all = stored();
    delete all[chooser.value];
    localStorage.setItem(KEPT, JSON.stringify(all));
    draw("");
  });
  keep.addEventListener("click", () => {
    const name = input({ value: chooser.value });
    openDialog({
      title: "Keep as a template",
      body: [field("Name", name), h("p", { class: "dim" }, "It is kept in this browser, with its body and headers.")],
      action: "Keep",
      allowed: () => name.value.trim() !== "",
      act: async () => {
        const all = { ...stored(), [name.value.trim()]: save() };
        const text = JSON.stringify(all);
        if (Object.keys(all).length > MOST || text.length > MOST * LONGEST)
          throw new Error(`At most ${MOST} templates are kept.`);
        localStorage.setItem(KEPT, text);
        draw(name.value.trim());
        toast("The template is kept");
      },
    });
  });
  draw("");
  return {
    element: h(
      "div",
      { class: "bar" },
      h("div", { class: "field grow" }, field("Template", chooser)),
      h("div", { class: "actions" }, keep, drop),
    ),
  };
}
