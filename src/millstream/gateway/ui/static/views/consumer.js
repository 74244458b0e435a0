/** A consumer: why it does or does not deliver, its state over time, and what can be done to it. */
import { Problem, isAbort, pathOf, post, remove } from "../api.js";
import { chart } from "../components/chart.js";
import { confirmDanger, openDialog } from "../components/dialog.js";
import { field, input, select } from "../components/form.js";
import { card, facts, heading, stat, stats, tag } from "../components/page.js";
import { changeButton, readOnlyNote } from "../components/states.js";
import { toast } from "../components/toast.js";
import { fill, h, setText } from "../dom.js";
import { ago, duration, isTime, limit, nanoseconds, number, time } from "../format.js";
import { Feed, keptSeries, link } from "../live.js";
import { go, href } from "../router.js";
import { session } from "../session.js";
import { configEditor } from "./config_editor.js";
import { whyPanel } from "./why.js";

const POINTS = 300;
const WHY_MS = 4000;

/** @param {import("../app.js").Context} context */
export default async function consumer(context) {
  const { stream, consumer: name } = context.params;
  const path = `v2/streams/${pathOf(stream)}/consumers/${pathOf(name)}`;
  context.setTitle(`${name} of ${stream}`);
  const info = await context.get(path);
  const why = whyPanel();
  const head = makeHead();
  const series = keptSeries(`consumer/${session.who?.server.id}/${session.who?.account}/${stream}/${name}`, POINTS);
  const lag = chart({ title: "Lag", names: ["to deliver", "unacked", "redelivered"] });
  const latency = h("div", {});
  const tags = h("span", { class: "actions" });
  const actions = h("div", { class: "actions" });
  const about = h("div", {});
  let drawn = "";

  /** @param {any} told */
  function show(told) {
    const now = told.consumer ?? told;
    head.show(now);
    series.push(Date.now(), [now.num_pending, now.num_ack_pending, now.num_redelivered]);
    lag.show(series);
    fill(latency, latencyCard(told.latency));
    const key = JSON.stringify([now.config, now.paused, now.push_bound, now.priority_groups]);
    if (key === drawn) return;
    drawn = key;
    fill(tags, kindTags(now));
    fill(about, aboutCard(now));
    fill(actions, actionButtons(path, stream, name, now, refresh));
  }

  async function diagnose() {
    try {
      why.show(await context.get(`${path}/why`));
    } catch (error) {
      if (!isAbort(error) && error instanceof Problem) why.fail(error);
    }
  }

  /** After an action: show its effect at once. */
  async function refresh() {
    try {
      show(await context.get(path));
    } catch (error) {
      if (!(error instanceof Problem) && !isAbort(error)) throw error;
    }
    await diagnose();
  }

  show(info);
  diagnose();
  context.scope.every(WHY_MS, () => !document.hidden && link.isUp && diagnose());
  context.scope.listen(link, "back", refresh);
  new Feed(context.scope, `${path}/state/live`, { onEvent: (event) => show({ ...info, ...event.data }) });
  const editor = await configEditor(context, `${path}/config`, `the configuration of ${name}`);
  return [
    heading(name, {
      path: [
        ["Streams", href(["streams"])],
        [stream, href(["streams", stream])],
        ["Consumers", href(["streams", stream, "consumers"])],
      ],
      tags,
      actions,
    }),
    readOnlyNote(),
    why.element,
    h("section", { class: "card", "aria-label": "State" }, head.element),
    h("section", { class: "card", "aria-label": "Lag over time" }, lag.element),
    latency,
    about,
    card("Configuration", editor),
  ];
}

function makeHead() {
  const pending = stat("To deliver", { hint: "Messages that were never delivered" });
  const unacked = stat("Unacked", { hint: "Delivered, and not acknowledged yet" });
  const redelivered = stat("Redelivered", { hint: "Unacked messages that were delivered more than once" });
  const waiting = stat("Waiting pulls", { hint: "Pull requests that wait for messages" });
  const delivered = stat("Delivered to");
  const floor = stat("Ack floor", { hint: "Everything up to here is acknowledged" });
  return {
    element: stats(pending, unacked, redelivered, waiting, delivered, floor),
    /** @param {any} info */
    show(info) {
      setText(pending.value, number(info.num_pending));
      setText(unacked.value, number(info.num_ack_pending));
      setText(
        unacked.more,
        info.config?.max_ack_pending > 0 ? `of at most ${number(info.config.max_ack_pending)}` : "",
      );
      setText(redelivered.value, number(info.num_redelivered));
      setText(waiting.value, info.config?.deliver_subject ? "–" : number(info.num_waiting));
      setText(delivered.value, `#${number(info.delivered?.stream_seq ?? 0)}`);
      setText(delivered.more, isTime(info.delivered?.last_active) ? ago(info.delivered.last_active) : "");
      setText(floor.value, `#${number(info.ack_floor?.stream_seq ?? 0)}`);
      setText(floor.more, isTime(info.ack_floor?.last_active) ? ago(info.ack_floor.last_active) : "");
    },
  };
}

/** @param {any} info */
function kindTags(info) {
  const isPush = !!info.config?.deliver_subject;
  return [
    tag(isPush ? "push" : "pull"),
    tag(`ack ${info.config?.ack_policy ?? "none"}`),
    info.paused && tag(`paused${info.pause_remaining ? ` for ${nanoseconds(info.pause_remaining)}` : ""}`, "warn"),
    isPush && !info.push_bound && tag("nobody listens", "warn"),
  ];
}

/** @param {any} latency */
function latencyCard(latency) {
  if (!latency) return null;
  const shown = Object.entries(latency).map(([name, value]) => {
    const each = stat(LATENCIES[/** @type {"p50"} */ (name)] ?? name);
    setText(
      each.value,
      typeof value === "number"
        ? name === "samples" || name === "count"
          ? number(value)
          : duration(value)
        : String(value),
    );
    return each;
  });
  return card("Time from delivery to acknowledgement", stats(...shown));
}

const LATENCIES = {
  p50: "Half within",
  p90: "90 % within",
  p95: "95 % within",
  p99: "99 % within",
  max: "Longest",
  samples: "Samples",
  count: "Samples",
};

/** @param {any} info */
function aboutCard(info) {
  const config = info.config ?? {};
  return card(
    "About",
    facts([
      [
        "Only subjects",
        h(
          "span",
          { class: "mono" },
          (config.filter_subjects ?? [config.filter_subject]).filter(Boolean).join(", ") || "all",
        ),
      ],
      ["Pushes to", config.deliver_subject && h("span", { class: "mono" }, config.deliver_subject)],
      ["Begins", config.deliver_policy],
      ["Redelivers after", limit(config.ack_wait, nanoseconds)],
      ["Back-off", (config.backoff ?? []).map(nanoseconds).join(", ")],
      ["Deliveries at most", limit(config.max_deliver)],
      ["Unacked at most", limit(config.max_ack_pending)],
      ["Waiting pulls at most", config.deliver_subject ? "" : limit(config.max_waiting)],
      [
        "Pinned to",
        (info.priority_groups ?? [])
          .map((/** @type {any} */ each) => each.pinned_client_id && `${each.group}: ${each.pinned_client_id}`)
          .filter(Boolean)
          .join(", "),
      ],
      ["Created", info.created && time(info.created)],
      ["Leader", info.cluster?.leader],
      ["Description", config.description],
    ]),
  );
}

/**
 * @param {string} path @param {string} stream @param {string} name @param {any} info
 * @param {() => Promise<void>} refresh
 */
function actionButtons(path, stream, name, info, refresh) {
  const pinned = (info.config?.priority_groups ?? []).length > 0;
  return [
    info.paused
      ? changeButton(
          "Resume",
          async () => {
            await act(() => post(`${path}/resume`), `${name} delivers again`, refresh);
          },
          { class: "primary" },
        )
      : changeButton("Pause…", () => pause(path, name, refresh)),
    changeButton("Reset…", () => reset(path, name, refresh)),
    pinned && changeButton("Unpin", () => unpin(path, info, name, refresh)),
    changeButton(
      "Delete…",
      () =>
        confirmDanger({
          title: `Delete ${name}`,
          text: `The consumer forgets what was acknowledged. Messages stay in ${stream}, unless its retention depends on this consumer.`,
          action: "Delete the consumer",
          typed: name,
          act: async () => {
            await remove(path);
            toast(`${name} is deleted`);
            go(href(["streams", stream, "consumers"]));
          },
        }),
      { class: "warning" },
    ),
  ];
}

/** @param {() => Promise<any>} work @param {string} done @param {() => Promise<void>} refresh */
async function act(work, done, refresh) {
  try {
    await work();
    toast(done);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    toast(error.message, "warn");
  }
  await refresh();
}

/** @param {string} path @param {string} name @param {() => Promise<void>} refresh */
function pause(path, name, refresh) {
  const choice = select([
    ["300", "5 minutes"],
    ["3600", "1 hour"],
    ["86400", "1 day"],
    ["2592000", "30 days"],
    ["time", "A time of your choice"],
  ]);
  const until = input({ type: "datetime-local", step: 1 });
  const untilField = field("Until", until);
  untilField.hidden = true;
  choice.addEventListener("change", () => (untilField.hidden = choice.value !== "time"));
  openDialog({
    title: `Pause ${name}`,
    body: [
      h("p", {}, "It delivers nothing until then. Messages wait in the stream."),
      field("For", choice),
      untilField,
    ],
    action: "Pause",
    allowed: () => choice.value !== "time" || !!until.value,
    act: async () => {
      await post(
        `${path}/pause`,
        choice.value === "time" ? { until: new Date(until.value).toISOString() } : { seconds: Number(choice.value) },
      );
      toast(`${name} is paused`);
      await refresh();
    },
  });
}

/** @param {string} path @param {string} name @param {() => Promise<void>} refresh */
function reset(path, name, refresh) {
  const choice = select([
    ["floor", "Behind its ack floor: deliver again what is unacked"],
    ["seq", "To a sequence"],
    ["time", "To a time"],
  ]);
  const seq = input({ type: "number", min: 1 });
  const at = input({ type: "datetime-local", step: 1 });
  const seqField = field("Sequence", seq, { hint: "The next message to deliver." });
  const timeField = field("Time", at, { hint: "The first message stored then or later is delivered next." });
  const draw = () => {
    seqField.hidden = choice.value !== "seq";
    timeField.hidden = choice.value !== "time";
  };
  choice.addEventListener("change", draw);
  draw();
  openDialog({
    title: `Reset ${name}`,
    body: [
      h("p", {}, "Acknowledgements behind that place are forgotten, and messages are delivered again."),
      field("Where to", choice),
      seqField,
      timeField,
    ],
    action: "Reset",
    isDanger: true,
    allowed: () => choice.value === "floor" || (choice.value === "seq" ? Number(seq.value) > 0 : !!at.value),
    act: async () => {
      const body =
        choice.value === "seq"
          ? { seq: Number(seq.value) }
          : choice.value === "time"
            ? { time: new Date(at.value).toISOString() }
            : {};
      const told = await post(`${path}/reset`, body);
      toast(`${name} goes on at ${number(told?.reset_seq ?? body.seq ?? 0)}`);
      await refresh();
    },
  });
}

/** @param {string} path @param {any} info @param {string} name @param {() => Promise<void>} refresh */
function unpin(path, info, name, refresh) {
  const groups = info.config.priority_groups;
  if (groups.length === 1)
    return act(() => post(`${path}/unpin`, { group: groups[0] }), `${name} is free for another client`, refresh);
  const group = select(groups.map((/** @type {string} */ each) => [each, each]));
  return openDialog({
    title: `Unpin ${name}`,
    body: field("Group", group),
    action: "Unpin",
    act: async () => {
      await post(`${path}/unpin`, { group: group.value });
      await refresh();
    },
  });
}
