/** Consumers of a stream. */
import { pathOf, post } from "../api.js";
import { openDialog } from "../components/dialog.js";
import { field, input, select } from "../components/form.js";
import { tag } from "../components/page.js";
import { changeButton, empty } from "../components/states.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { go, href } from "../router.js";
import { list } from "./list.js";
import { streamFrame } from "./stream_frame.js";

/** @param {import("../app.js").Context} context */
export default async function consumers(context) {
  const name = context.params.stream;
  context.setTitle(`Consumers of ${name}`);
  const info = await context.get(`v2/streams/${pathOf(name)}`);
  const add = () => changeButton("New consumer", () => newConsumer(name), { class: "primary" });
  const rows = list(context, {
    noun: "consumers",
    path: `v2/streams/${pathOf(name)}/consumers`,
    key: "consumers",
    query: { summary: true },
    sort: "name",
    columns: [
      {
        name: "Name",
        sort: "name",
        isHeader: true,
        cell: (row) => [
          h("a", { href: href(["streams", name, "consumers", row.name]) }, row.name),
          " ",
          row.paused && tag("paused", "warn"),
        ],
      },
      {
        name: "Kind",
        cell: (row) => [row.kind, row.kind === "push" && !row.push_bound && [" ", tag("nobody listens", "warn")]],
      },
      {
        name: "Filter",
        cell: (row) =>
          row.filter_subjects?.length > 0 && h("span", { class: "mono dim" }, row.filter_subjects.join(", ")),
      },
      { name: "To deliver", sort: "pending", desc: true, isNumber: true, cell: (row) => number(row.pending) },
      { name: "Unacked", sort: "ack_pending", desc: true, isNumber: true, cell: (row) => number(row.ack_pending) },
      { name: "Redelivered", sort: "redelivered", desc: true, isNumber: true, cell: (row) => number(row.redelivered) },
      {
        name: "Waiting pulls",
        sort: "waiting",
        desc: true,
        isNumber: true,
        cell: (row) => (row.kind === "pull" ? number(row.waiting) : "–"),
      },
    ],
    empty: () =>
      empty(
        "The stream has no consumers.",
        "A consumer delivers messages and remembers which of them were acknowledged.",
        add(),
      ),
  });
  return [streamFrame(name, "Consumers", { config: info.config, actions: add() }), rows.element];
}

/** @param {string} stream */
function newConsumer(stream) {
  const name = input({});
  const filter = input({ placeholder: "all subjects" });
  const deliver = select([
    ["all", "From the first message"],
    ["new", "Only new messages"],
    ["last", "From the last message"],
    ["last_per_subject", "The last of each subject"],
  ]);
  const ack = select([
    ["explicit", "Each message"],
    ["all", "A message acks those before it"],
    ["none", "No acknowledgements"],
  ]);
  const wait = input({ type: "number", min: 0, step: "any", value: 30 });
  const most = input({ type: "number", min: -1, value: -1 });
  const unacked = input({ type: "number", min: -1, value: 1000 });
  const target = input({ placeholder: "empty: clients pull" });
  openDialog({
    title: `New consumer of ${stream}`,
    isWide: true,
    body: h(
      "div",
      { class: "fields" },
      field("Name", name),
      field("Only subjects", filter, { hint: "Separated by commas." }),
      field("Begin", deliver),
      field("Acknowledge", ack),
      field("Redeliver after, seconds", wait),
      field("Deliveries at most", most, { hint: "-1: no limit" }),
      field("Unacked at most", unacked),
      field("Push to subject", target),
    ),
    action: "Create",
    act: async () => {
      const filters = filter.value
        .split(",")
        .map((/** @type {string} */ each) => each.trim())
        .filter(Boolean);
      const config = /** @type {Object<string, any>} */ ({
        durable_name: name.value.trim(),
        deliver_policy: deliver.value,
        ack_policy: ack.value,
      });
      if (filters.length === 1) config.filter_subject = filters[0];
      if (filters.length > 1) config.filter_subjects = filters;
      if (ack.value !== "none") {
        config.ack_wait = Math.round(Number(wait.value) * 1e9);
        config.max_deliver = Number(most.value) || -1;
        config.max_ack_pending = Number(unacked.value) || -1;
      }
      if (target.value.trim()) config.deliver_subject = target.value.trim();
      const made = await post(`v2/streams/${pathOf(stream)}/consumers`, config);
      go(href(["streams", stream, "consumers", made.name]));
    },
  });
}
