/** All streams, and new ones. */
import { post } from "../api.js";
import { openDialog } from "../components/dialog.js";
import { field, input, select } from "../components/form.js";
import { heading, tag } from "../components/page.js";
import { changeButton, empty } from "../components/states.js";
import { h } from "../dom.js";
import { ago, bytes, number } from "../format.js";
import { go, href } from "../router.js";
import { list } from "./list.js";

/** @param {import("../app.js").Context} context */
export default async function streams(context) {
  context.setTitle("Streams");
  const add = () => changeButton("New stream", newStream, { class: "primary" });
  const rows = list(context, {
    noun: "streams",
    path: "v2/streams",
    key: "streams",
    query: { summary: true },
    sort: "name",
    columns: [
      {
        name: "Name",
        sort: "name",
        isHeader: true,
        cell: (row) => [h("a", { href: href(["streams", row.name]) }, row.name), " ", kindTag(row)],
      },
      { name: "Subjects", cell: (row) => h("span", { class: "mono dim" }, subjectsOf(row)) },
      { name: "Messages", sort: "messages", desc: true, isNumber: true, cell: (row) => number(row.messages) },
      { name: "Size", sort: "bytes", desc: true, isNumber: true, cell: (row) => bytes(row.bytes) },
      {
        name: "Consumers",
        sort: "consumers",
        desc: true,
        isNumber: true,
        cell: (row) => h("a", { href: href(["streams", row.name, "consumers"]) }, number(row.consumers)),
      },
      {
        name: "Retention",
        cell: (row) => [row.retention, row.storage === "memory" && [" ", tag("memory")]],
      },
      { name: "Last message", sort: "last", desc: true, class: "low tight", cell: (row) => ago(row.last_time) },
    ],
    empty: () => empty("There are no streams yet.", "A stream keeps what is published to its subjects.", add()),
  });
  return [heading("Streams", { actions: add() }), rows.element];
}

/** @param {any} row */
function subjectsOf(row) {
  if (row.mirror) return `mirror of ${row.mirror.name ?? row.mirror}`;
  const sources = row.sources?.length
    ? `sources: ${row.sources.map((/** @type {any} */ each) => each.name ?? each).join(", ")}`
    : "";
  const subjects = row.subjects ?? [];
  const shown = subjects.slice(0, 4).join(", ") + (subjects.length > 4 ? ` and ${subjects.length - 4} more` : "");
  return [shown, sources].filter(Boolean).join("; ");
}

/** @param {any} row */
function kindTag(row) {
  const kinds = { kv: "key-value", object: "objects", mqtt: "MQTT" };
  return [
    row.kind !== "stream" && row.kind && tag(kinds[/** @type {"kv"} */ (row.kind)] ?? row.kind, "accent"),
    row.sealed && [" ", tag("sealed", "warn")],
  ];
}

function newStream() {
  const name = input({ required: true });
  const subjects = input({ placeholder: "orders.>" });
  const retention = select([
    ["limits", "Limits: until a limit is reached"],
    ["workqueue", "Work queue: until one consumer has acked it"],
    ["interest", "Interest: until all consumers have acked it"],
  ]);
  const storage = select([
    ["file", "On disk"],
    ["memory", "In memory"],
  ]);
  const replicas = input({ type: "number", min: 1, max: 5, value: 1 });
  const discard = select([
    ["old", "Remove the oldest"],
    ["new", "Refuse new ones"],
  ]);
  const maxMessages = input({ type: "number", min: 0, placeholder: "no limit" });
  const maxBytes = input({ type: "number", min: 0, placeholder: "no limit" });
  const maxAge = input({ type: "number", min: 0, step: "any", placeholder: "no limit" });
  openDialog({
    title: "New stream",
    isWide: true,
    body: h(
      "div",
      { class: "fields" },
      field("Name", name),
      field("Subjects", subjects, { hint: "Separated by commas; * is one token, > the rest." }),
      field("Retention", retention),
      field("Storage", storage),
      field("Replicas", replicas, { hint: "More than one needs a cluster." }),
      field("When it is full", discard),
      field("Most messages", maxMessages),
      field("Most bytes", maxBytes),
      field("Greatest age in hours", maxAge),
    ),
    action: "Create",
    act: async () => {
      const config = {
        name: name.value.trim(),
        subjects: subjects.value
          .split(",")
          .map((/** @type {string} */ each) => each.trim())
          .filter(Boolean),
        retention: retention.value,
        storage: storage.value,
        num_replicas: Number(replicas.value) || 1,
        discard: discard.value,
        max_msgs: Number(maxMessages.value) || -1,
        max_bytes: Number(maxBytes.value) || -1,
        max_age: Math.round((Number(maxAge.value) || 0) * 3600) * 1e9,
      };
      await post("v2/streams", config);
      go(href(["streams", config.name]));
    },
  });
}
