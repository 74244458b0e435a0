/** A key-value bucket: its keys as a tree or a list, and the chosen key with its history. */
import { pathOf, remove } from "../api.js";
import { confirmDanger } from "../components/dialog.js";
import { input, select } from "../components/form.js";
import { heading, tag } from "../components/page.js";
import { changeButton, empty, into } from "../components/states.js";
import { toast } from "../components/toast.js";
import { tree } from "../components/tree.js";
import { fill, h } from "../dom.js";
import { bytes, duration, number, plural } from "../format.js";
import { go, href, setQuery } from "../router.js";
import { debounced } from "../scope.js";
import { keyPanel, newKey } from "./key.js";

const LEVEL = 200;
const PAGE = 200;
const TYPING_MS = 250;
const MOST_IN_TREE = 200_000; // values: the first level of a larger tree takes seconds, its list does not

/** @param {import("../app.js").Context} context */
export default async function bucket(context) {
  const name = context.params.bucket;
  const path = `v2/kv/${pathOf(name)}`;
  context.setTitle(name);
  const status = await context.get(path);
  const usual = status.values > MOST_IN_TREE ? "list" : "tree";
  const keys = h("div", {});
  const detail = h("section", { class: "card", "aria-label": "Key" });
  const prefix = input({
    type: "search",
    value: context.query.prefix ?? "",
    placeholder: "Keys that begin with…",
    "aria-label": "Keys that begin with",
  });
  const form = select(
    [
      ["tree", "As a tree"],
      ["list", "As a list"],
    ],
    { value: context.query.as ?? usual, "aria-label": "Show keys" },
  );
  let chosen = context.query.key ?? "";
  let detailScope = context.scope.child();

  const remember = () => setQuery({ prefix: prefix.value, as: form.value === usual ? "" : form.value, key: chosen });

  /** @param {string} key */
  function choose(key) {
    chosen = key;
    remember();
    for (const each of keys.querySelectorAll("[data-key]"))
      each.closest(".leaf")?.classList.toggle("chosen", each.dataset.key === key);
    detailScope.end();
    detailScope = context.scope.child();
    const scope = detailScope;
    into(detail, "this key", () => keyPanel({ ...context, scope }, name, key, draw));
  }

  /** @param {string} key @param {string} shown */
  const keyButton = (key, shown) =>
    h("button", { type: "button", class: "link mono", data: { key }, on: { click: () => choose(key) } }, shown);

  /** @param {string} above */
  async function loadLevel(above) {
    const told = await context.get(`v2/streams/${pathOf(`KV_${name}`)}/subjects`, {
      prefix: above,
      depth: 1,
      limit: LEVEL,
    });
    const start = `$KV.${name}.`;
    const branches = told.subjects.map((/** @type {any} */ each) => {
      const key = each.subject.startsWith(start) ? each.subject.slice(start.length) : each.subject;
      return {
        name: each.token,
        value: each.subject,
        children: each.children,
        label: each.children ? undefined : keyButton(key, each.token),
        more: each.children ? plural(each.children, "key") : "",
      };
    });
    return { branches, rest: (told.total ?? branches.length) - branches.length, isPartial: told.complete === false };
  }

  function drawTree() {
    const typed = prefix.value.trim().replace(/\.+$/, "");
    fill(keys, tree({ what: "keys", load: loadLevel, root: typed ? `$KV.${name}.${typed}` : `$KV.${name}` }));
  }

  function drawList() {
    const rows = h("ul", { class: "tree" });
    const more = h("button", { type: "button", hidden: true }, "Show more");
    const note = h("div", {});
    /** @type {any} */
    let after;
    const load = () =>
      into(note, "keys", async () => {
        const told = await context.get(`${path}/keys`, { prefix: prefix.value.trim(), after, limit: PAGE });
        const found = told.keys ?? [];
        for (const each of found)
          rows.append(
            h(
              "li",
              {},
              h(
                "div",
                { class: "leaf" },
                keyButton(each.key ?? each, each.key ?? each),
                h("span", { class: "more" }, each.revision ? `r${number(each.revision)}` : ""),
              ),
            ),
          );
        after = told.next ?? told.after;
        more.hidden = !after;
        if (rows.children.length) return null;
        return empty(
          "No keys.",
          prefix.value ? "No key begins like this." : "Put the first one.",
          changeButton("New key", () => newKey(name, choose, draw)),
        );
      });
    more.addEventListener("click", load);
    fill(keys, rows, note, more);
    load();
  }

  function draw() {
    remember();
    if (form.value === "list") drawList();
    else if (!status.values && !prefix.value)
      fill(
        keys,
        empty(
          "The bucket is empty.",
          "Put the first key.",
          changeButton("New key", () => newKey(name, choose, redraw)),
        ),
      );
    else drawTree();
  }

  async function redraw() {
    Object.assign(status, await context.get(path));
    draw();
  }

  form.addEventListener("change", draw);
  prefix.addEventListener("input", debounced(context.scope, TYPING_MS, draw));
  draw();
  if (chosen) choose(chosen);
  else fill(detail, empty("Choose a key.", "Its value, its revisions and what happens to it appear here."));
  return [
    heading(name, {
      path: [["Key-value", href(["kv"])]],
      tags: [
        tag(`${plural(status.values, "value")}, ${bytes(status.bytes)}`),
        tag(`history ${number(status.history)}`),
        status.ttl > 0 && tag(`values live ${duration(status.ttl)}`),
        status.sealed && tag("sealed", "warn"),
      ],
      actions: [
        changeButton("New key", () => newKey(name, choose, redraw), { class: "primary" }),
        h("a", { class: "button", href: href(["streams", `KV_${name}`]) }, "Its stream"),
        changeButton(
          "Delete bucket…",
          () =>
            confirmDanger({
              title: `Delete ${name}`,
              text: "All keys and their history are removed. This cannot be undone.",
              action: "Delete the bucket",
              typed: name,
              act: async () => {
                await remove(path);
                toast(`${name} is deleted`);
                go(href(["kv"]));
              },
            }),
          { class: "warning" },
        ),
      ],
    }),
    h(
      "div",
      { class: "split" },
      h("section", { class: "card", "aria-label": "Keys" }, h("div", { class: "row" }, prefix, form), keys),
      detail,
    ),
  ];
}
