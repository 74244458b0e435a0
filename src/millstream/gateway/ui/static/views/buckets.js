/** Key-value buckets. */
import { post } from "../api.js";
import { openDialog } from "../components/dialog.js";
import { field, input, select } from "../components/form.js";
import { heading } from "../components/page.js";
import { changeButton, empty } from "../components/states.js";
import { h } from "../dom.js";
import { bytes, duration, number } from "../format.js";
import { go, href } from "../router.js";
import { gathered, list } from "./list.js";

/** @param {import("../app.js").Context} context */
export default async function buckets(context) {
  context.setTitle("Key-value");
  const add = () => changeButton("New bucket", newBucket, { class: "primary" });
  const rows = list(context, {
    noun: "buckets",
    path: "v2/kv",
    key: "buckets",
    load: gathered(context, "v2/kv", "buckets", "bucket"),
    sort: "name",
    columns: [
      {
        name: "Bucket",
        sort: "name",
        isHeader: true,
        cell: (row) => h("a", { href: href(["kv", row.bucket]) }, row.bucket),
      },
      { name: "Values", sort: "values", desc: true, isNumber: true, cell: (row) => number(row.values) },
      { name: "Size", sort: "bytes", desc: true, isNumber: true, cell: (row) => bytes(row.bytes) },
      { name: "History", isNumber: true, cell: (row) => number(row.history) },
      { name: "Values live for", cell: (row) => (row.ttl ? duration(row.ttl) : "ever") },
      { name: "Description", cell: (row) => row.description ?? "" },
    ],
    empty: () =>
      empty(
        "There are no buckets yet.",
        "A bucket holds the latest values of keys, and as many older ones as you want.",
        add(),
      ),
  });
  return [heading("Key-value", { actions: add() }), rows.element];
}

function newBucket() {
  const name = input({});
  const history = input({ type: "number", min: 1, max: 64, value: 5 });
  const ttl = input({ type: "number", min: 0, step: "any", placeholder: "they stay" });
  const storage = select([
    ["file", "On disk"],
    ["memory", "In memory"],
  ]);
  const replicas = input({ type: "number", min: 1, max: 5, value: 1 });
  const description = input({});
  openDialog({
    title: "New bucket",
    body: h(
      "div",
      { class: "fields" },
      field("Name", name, { hint: "Letters, digits, - and _." }),
      field("Revisions kept of each key", history, { hint: "At most 64." }),
      field("Values live for, seconds", ttl),
      field("Storage", storage),
      field("Replicas", replicas),
      field("Description", description, { wide: true }),
    ),
    action: "Create",
    act: async () => {
      const bucket = name.value.trim();
      await post("v2/kv", {
        bucket,
        history: Number(history.value) || 1,
        ttl: Number(ttl.value) || 0,
        storage: storage.value,
        replicas: Number(replicas.value) || 1,
        description: description.value,
      });
      go(href(["kv", bucket]));
    },
  });
}
