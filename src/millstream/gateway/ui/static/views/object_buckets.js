/** Object stores. */
import { post } from "../api.js";
import { openDialog } from "../components/dialog.js";
import { field, input, select } from "../components/form.js";
import { heading, tag } from "../components/page.js";
import { changeButton, empty } from "../components/states.js";
import { h } from "../dom.js";
import { bytes, number } from "../format.js";
import { go, href } from "../router.js";
import { gathered, list } from "./list.js";

/** @param {import("../app.js").Context} context */
export default async function objectBuckets(context) {
  context.setTitle("Objects");
  const add = () => changeButton("New store", newStore, { class: "primary" });
  const rows = list(context, {
    noun: "stores",
    path: "v2/objects",
    key: "stores",
    load: gathered(context, "v2/objects", "stores", "bucket"),
    sort: "name",
    columns: [
      {
        name: "Store",
        sort: "name",
        isHeader: true,
        cell: (row) => [
          h("a", { href: href(["objects", row.bucket]) }, row.bucket),
          " ",
          row.sealed && tag("sealed", "warn"),
        ],
      },
      { name: "Size", sort: "bytes", desc: true, isNumber: true, cell: (row) => bytes(row.bytes) },
      { name: "Replicas", isNumber: true, cell: (row) => number(row.replicas) },
      { name: "Description", cell: (row) => row.description ?? "" },
    ],
    empty: () =>
      empty(
        "There are no object stores yet.",
        "A store keeps files of any size in pieces, with a digest of each.",
        add(),
      ),
  });
  return [heading("Objects", { actions: add() }), rows.element];
}

function newStore() {
  const name = input({});
  const storage = select([
    ["file", "On disk"],
    ["memory", "In memory"],
  ]);
  const replicas = input({ type: "number", min: 1, max: 5, value: 1 });
  const description = input({});
  openDialog({
    title: "New store",
    body: h(
      "div",
      { class: "fields" },
      field("Name", name, { hint: "Letters, digits, - and _." }),
      field("Storage", storage),
      field("Replicas", replicas),
      field("Description", description, { wide: true }),
    ),
    action: "Create",
    act: async () => {
      const bucket = name.value.trim();
      await post("v2/objects", {
        bucket,
        storage: storage.value,
        replicas: Number(replicas.value) || 1,
        description: description.value,
      });
      go(href(["objects", bucket]));
    },
  });
}
