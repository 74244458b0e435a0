/** The state of a stream, and what can be done to all of it. */
import { pathOf, post, remove } from "../api.js";
import { chart } from "../components/chart.js";
import { confirmDanger, openDialog } from "../components/dialog.js";
import { checkbox, field, input } from "../components/form.js";
import { card, facts, meter, stat, stats, tag } from "../components/page.js";
import { changeButton, readOnlyNote } from "../components/states.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { fill, h, setText } from "../dom.js";
import { ago, bytes, isTime, limit, nanoseconds, number, plural, rate, time } from "../format.js";
import { Feed, keptSeries, link } from "../live.js";
import { go, href } from "../router.js";
import { session } from "../session.js";
import { streamFrame } from "./stream_frame.js";

const POINTS = 300;
const INFO_MS = 10_000; // configuration and replicas change seldom

/** @param {import("../app.js").Context} context */
export default async function stream(context) {
  const name = context.params.stream;
  context.setTitle(name);
  const path = `v2/streams/${pathOf(name)}`;
  let info = await context.get(path);
  const series = keptSeries(`stream/${session.who?.server.id}/${session.who?.account}/${name}`, POINTS);
  const throughput = chart({ title: "Messages stored a second", names: ["in"] });
  const head = makeHead();
  const more = h("div", {});
  let config = info.config;
  let drawn = "";

  /** @param {any} told */
  function show(told) {
    config = told.config ?? config;
    const state = told.state ?? told;
    head.show(state, told.rates);
    const { rates, ...rest } = told;
    const key = JSON.stringify(rest);
    if (key !== drawn) fill(more, details(config, state, told));
    drawn = key;
    if (told.rates) series.push(Date.now(), [told.rates.in_msgs]);
    throughput.show(series);
  }

  show(info);
  new Feed(context.scope, `${path}/state/live`, {
    onEvent: (event) => {
      const { rates, ...state } = event.data;
      show({ ...info, state, rates });
    },
  });
  context.scope.every(INFO_MS, async () => {
    if (document.hidden || !link.isUp) return;
    const now = await context.get(path).catch(() => null); // the feed says what is wrong
    if (now) info = now;
  });
  return [
    streamFrame(name, "State", {
      config,
      actions: changeButton("Publish", () => go(href(["publish"], { subject: exampleSubject(config) }))),
    }),
    h("section", { class: "card", "aria-label": "State" }, head.element),
    h("section", { class: "card", "aria-label": "Throughput" }, throughput.element),
    more,
    dangers(context, name, () => config),
  ];
}

/** @param {any} config */
function exampleSubject(config) {
  const first = config.subjects?.[0] ?? "";
  return /[*>]/.test(first) ? "" : first;
}

function makeHead() {
  const messages = stat("Messages");
  const size = stat("Size");
  const input = stat("In");
  const first = stat("First");
  const last = stat("Last");
  const consumers = stat("Consumers");
  return {
    element: stats(messages, size, input, first, last, consumers),
    /** @param {any} state @param {any} rates */
    show(state, rates) {
      setText(messages.value, number(state.messages));
      setText(messages.more, state.num_deleted ? `${number(state.num_deleted)} removed in between` : "");
      setText(size.value, bytes(state.bytes));
      setText(size.more, state.num_subjects ? plural(state.num_subjects, "subject") : "");
      setText(input.value, rate(rates?.in_msgs));
      setText(first.value, state.messages ? `#${number(state.first_seq)}` : "–");
      setText(first.more, isTime(state.first_ts) ? ago(state.first_ts) : "");
      setText(last.value, state.last_seq ? `#${number(state.last_seq)}` : "–");
      setText(last.more, isTime(state.last_ts) ? ago(state.last_ts) : "");
      setText(consumers.value, number(state.consumer_count));
    },
  };
}

/** @param {any} config @param {any} state @param {any} told */
function details(config, state, told) {
  return h(
    "div",
    { class: "grid" },
    card(
      "Limits",
      facts([
        ["Messages", meter(state.messages, config.max_msgs, limit(config.max_msgs))],
        ["Bytes", meter(state.bytes, config.max_bytes, limit(config.max_bytes, bytes))],
        ["Age", limit(config.max_age, nanoseconds)],
        ["For each subject", limit(config.max_msgs_per_subject)],
        ["Message size", limit(config.max_msg_size, bytes)],
        ["Consumers", limit(config.max_consumers)],
        ["When it is full", config.discard === "new" ? "new messages are refused" : "the oldest are removed"],
        ["Duplicates found within", limit(config.duplicate_window, nanoseconds)],
      ]),
    ),
    card(
      "About",
      facts([
        ["Subjects", h("span", { class: "mono" }, (config.subjects ?? []).join(", "))],
        ["Description", config.description],
        ["Retention", config.retention],
        [
          "Storage",
          `${config.storage}${config.compression && config.compression !== "none" ? `, ${config.compression}` : ""}`,
        ],
        ["Created", told.created && time(told.created)],
        ["Mirror of", config.mirror?.name],
        ["Sources", (config.sources ?? []).map((/** @type {any} */ each) => each.name).join(", ")],
      ]),
    ),
    (config.num_replicas > 1 || told.cluster?.replicas) && card("Replicas", replicas(config, told.cluster)),
    origins(told).length > 0 && card("Origins", originTable(origins(told))),
  );
}

/** @param {any} config @param {any} cluster */
function replicas(config, cluster) {
  const rows = [
    ...(cluster?.leader ? [{ name: cluster.leader, role: "leader", current: true }] : []),
    ...(cluster?.replicas ?? []).map((/** @type {any} */ each) => ({ ...each, role: "replica" })),
  ];
  const shown = table({
    caption: "Replicas",
    columns: [
      { name: "Server", isHeader: true, cell: (row) => row.name },
      { name: "Role", cell: (row) => row.role },
      {
        name: "State",
        cell: (row) =>
          row.offline
            ? tag("offline", "bad")
            : row.current
              ? tag("current", "good")
              : tag(`${number(row.lag ?? 0)} behind`, "warn"),
      },
    ],
  });
  shown.show(rows);
  return [
    !cluster?.leader && h("p", { class: "complaint" }, "There is no leader: nothing can be stored or delivered."),
    h("p", { class: "dim" }, `${config.num_replicas} wanted`),
    shown.element,
  ];
}

/** @param {any} told @returns {any[]} */
function origins(told) {
  return [
    ...(told.mirror ? [{ ...told.mirror, kind: "mirror" }] : []),
    ...(told.sources ?? []).map((/** @type {any} */ each) => ({ ...each, kind: "source" })),
  ];
}

/** @param {any[]} rows */
function originTable(rows) {
  const shown = table({
    caption: "Origins",
    columns: [
      { name: "Stream", isHeader: true, cell: (row) => row.name },
      { name: "As", cell: (row) => row.kind },
      { name: "Behind", isNumber: true, cell: (row) => number(row.lag) },
      { name: "Heard", isNumber: true, cell: (row) => (row.active < 0 ? "never" : `${nanoseconds(row.active)} ago`) },
      { name: "Problem", cell: (row) => row.error?.description ?? "" },
    ],
  });
  shown.show(rows);
  return shown.element;
}

/** @param {import("../app.js").Context} context @param {string} name @param {() => any} config */
function dangers(context, name, config) {
  const path = `v2/streams/${pathOf(name)}`;
  return card(
    "Change it",
    readOnlyNote(),
    h(
      "div",
      { class: "actions" },
      changeButton("Purge…", () => purge(path, name), { class: "warning" }),
      changeButton(
        "Seal…",
        () =>
          confirmDanger({
            title: `Seal ${name}`,
            text: "A sealed stream takes no message, loses none, and can never be opened again. Its configuration is fixed.",
            action: "Seal it for good",
            typed: name,
            act: async () => {
              await post(`${path}/seal`);
              toast(`${name} is sealed`);
              context.reload();
            },
          }),
        { class: "warning", disabled: !!config().sealed },
      ),
      changeButton(
        "Delete…",
        () =>
          confirmDanger({
            title: `Delete ${name}`,
            text: "All its messages and consumers are removed. This cannot be undone.",
            action: "Delete the stream",
            typed: name,
            act: async () => {
              await remove(path);
              toast(`${name} is deleted`);
              go(href(["streams"]));
            },
          }),
        { class: "warning" },
      ),
    ),
  );
}

/** @param {string} path @param {string} name */
function purge(path, name) {
  const subject = input({ placeholder: "all subjects" });
  const seq = input({ type: "number", min: 0, placeholder: "all" });
  const keep = input({ type: "number", min: 0, placeholder: "none" });
  const sure = checkbox("These messages are gone for good");
  openDialog({
    title: `Purge ${name}`,
    body: [
      h(
        "div",
        { class: "fields" },
        field("Subject", subject, { hint: "Wildcards are allowed." }),
        field("Below sequence", seq),
        field("Keep the last", keep, { hint: "Instead of a sequence." }),
      ),
      sure.element,
    ],
    action: "Purge",
    isDanger: true,
    allowed: () => sure.control.checked,
    act: async () => {
      const told = await post(`${path}/purge`, {
        subject: subject.value.trim(),
        seq: Number(seq.value) || 0,
        keep: Number(keep.value) || 0,
      });
      toast(`${plural(told.purged, "message")} removed from ${name}`);
    },
  });
}
