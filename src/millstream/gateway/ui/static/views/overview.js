/** The overview: what flows, what is stored, and what needs attention. */
import { icon } from "../components/icons.js";
import { chart } from "../components/chart.js";
import { card, heading, meter, stat, stats, tag } from "../components/page.js";
import { prose, sentence } from "../components/prose.js";
import { select } from "../components/form.js";
import { empty, notPermitted } from "../components/states.js";
import { fill, h, setText } from "../dom.js";
import { byteRate, bytes, duration, number, plural, rate, time } from "../format.js";
import { Feed, keptSeries } from "../live.js";
import { href, setQuery } from "../router.js";
import { serverName, session } from "../session.js";

const POINTS = 2000; // an hour: every five seconds from the gateway, then every two
const SPANS = /** @type {[string, string][]} */ ([
  ["300", "Last 5 minutes"],
  ["900", "Last 15 minutes"],
  ["3600", "Last hour"],
]);
const FEW = 5; // findings that are shown at first

function history() {
  const key = `overview/${session.who?.server.id}/${session.who?.account}/${session.who?.user}`;
  return { messages: keptSeries(`${key}/messages`, POINTS), bytes: keptSeries(`${key}/bytes`, POINTS) };
}

/** Add the rates of one moment. @param {ReturnType<typeof history>} past @param {string} at @param {any} rates */
function remember(past, at, rates) {
  const ms = new Date(at).getTime();
  past.messages.push(ms, [rates.in_msgs, rates.out_msgs]);
  past.bytes.push(ms, [rates.in_bytes, rates.out_bytes]);
}

/** @param {ReturnType<typeof history>} past @param {any} told columns of the gateway */
function recall(past, told) {
  const newest = past.messages.points[past.messages.points.length - 1]?.time ?? 0;
  (told?.time ?? []).forEach((/** @type {string} */ at, /** @type {number} */ index) => {
    if (new Date(at).getTime() <= newest) return;
    remember(past, at, {
      in_msgs: told.in_msgs[index],
      out_msgs: told.out_msgs[index],
      in_bytes: told.in_bytes[index],
      out_bytes: told.out_bytes[index],
    });
  });
}

/** @param {import("../app.js").Context} context */
export default async function overview(context) {
  context.setTitle("Overview");
  const [first, told] = await Promise.all([
    context.get("v2/overview"),
    context.get("v2/overview/history").catch(() => null), // the overview says what is wrong
  ]);
  const past = history();
  recall(past, told);
  const health = h("span", {});
  const attention = makeAttention();
  const totals = makeTotals();
  const server = h("div", { class: "message-detail" });
  const account = h("div", {});
  const messages = chart({ title: "Messages a second", names: ["in", "out"] });
  const flow = chart({ title: "Bytes a second", names: ["in", "out"], form: bytes, base: 1024 });
  const span = select(SPANS, { "aria-label": "Time that the charts show", value: context.query.span ?? "300" });
  const charts = h(
    "div",
    { class: "grid" },
    h("section", { class: "card", "aria-label": "Messages a second" }, messages.element),
    h("section", { class: "card", "aria-label": "Bytes a second" }, flow.element),
  );
  const noRates = h(
    "section",
    { class: "card", hidden: true },
    h("h2", {}, "Traffic"),
    notPermitted(
      "traffic of the server",
      "Rates come from the server's statistics, which the system account may ask for.",
    ),
  );

  function draw() {
    const ms = (Number(span.value) || 300) * 1000;
    messages.show(past.messages, ms);
    flow.show(past.bytes, ms);
  }

  /** @param {any} told */
  function show(told) {
    fill(health, healthTag(told.health));
    attention.show(told);
    totals.show(told);
    showServer(server, told);
    showAccount(account, told.account);
    charts.hidden = (told.not_permitted ?? []).includes("rates") && !past.messages.points.length;
    span.hidden = charts.hidden;
    noRates.hidden = !charts.hidden;
    if (told.rates) remember(past, told.time, told.rates);
    draw();
  }

  show(first);
  span.addEventListener("change", () => {
    setQuery({ span: span.value });
    draw();
  });
  new Feed(context.scope, "v2/overview/live", { onEvent: (event) => show(event.data) });
  return [
    heading("Overview", { tags: health, actions: span }),
    h("section", { class: "card", "aria-label": "Totals" }, totals.element),
    attention.element,
    charts,
    noRates,
    h("div", { class: "grid" }, card("Account", account), card("Server", server)),
  ];
}

function makeTotals() {
  const streams = stat("Streams");
  const consumers = stat("Consumers");
  const messages = stat("Messages stored");
  const stored = stat("Bytes stored");
  const input = stat("In");
  const output = stat("Out");
  return {
    element: stats(streams, consumers, messages, stored, input, output),
    /** @param {any} told */
    show(told) {
      const { totals, rates } = told;
      setText(streams.value, number(totals?.streams));
      setText(consumers.value, number(totals?.consumers));
      setText(messages.value, number(totals?.messages));
      setText(stored.value, bytes(totals?.bytes));
      setText(input.value, rate(rates?.in_msgs));
      setText(input.more, rates ? byteRate(rates.in_bytes) : "");
      setText(output.value, rate(rates?.out_msgs));
      setText(output.more, rates ? byteRate(rates.out_bytes) : "");
    },
  };
}

/** @param {any} health */
function healthTag(health) {
  if (!health) return null;
  return health.status === "ok"
    ? tag("healthy", "good")
    : tag(`${health.status}${health.error ? `: ${health.error}` : ""}`, "bad");
}

/** What needs attention: the first few findings, and all of them if somebody asks. */
function makeAttention() {
  const element = h("section", { class: "card", "aria-label": "Needs attention" });
  let shown = "";
  let isOpen = false;

  /** @param {any} told */
  function show(told) {
    const list = told.attention ?? [];
    const scan = told.scanned;
    const isScanning = scan && scan.streams < scan.of;
    const key = JSON.stringify([list, isScanning && scan, isOpen]);
    if (key === shown) return;
    shown = key;
    const few = isOpen ? list : list.slice(0, FEW);
    fill(
      element,
      list.length > 0 && h("h2", {}, `Needs attention`, tag(number(list.length), "warn")),
      list.length > 0
        ? h("ul", { class: "attention" }, few.map(finding))
        : h("p", { class: "calm" }, icon("good"), h("span", {}, "Nothing needs attention.")),
      list.length > FEW &&
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-expanded": String(isOpen),
            on: {
              click: () => {
                isOpen = !isOpen;
                show(told);
              },
            },
          },
          isOpen ? "Show fewer" : `Show all ${number(list.length)}`,
        ),
      isScanning &&
        h("p", { class: "dim" }, `Consumers of ${number(scan.streams)} of ${number(scan.of)} streams are looked at so far.`),
    );
  }
  return { element, show };
}

/** @param {any} each */
function finding(each) {
  return h(
    "li",
    { class: each.severity },
    icon("warn"),
    h("span", {}, prose(sentence(each.text)), " ", linkOf(each)),
  );
}

/** @param {any} each */
function linkOf(each) {
  if (each.consumer)
    return h(
      "a",
      { href: href(["streams", each.stream, "consumers", each.consumer]) },
      `Why? (${each.stream} / ${each.consumer})`,
    );
  if (/letter/.test(each.kind)) return h("a", { href: href(["letters", each.stream]) }, "Look at them");
  if (each.stream) return h("a", { href: href(["streams", each.stream]) }, "Look at the stream");
  return null;
}

/** @param {Element} place @param {any} told */
function showServer(place, told) {
  const who = session.who?.server;
  const server = told.server;
  const rows = /** @type {[string, import("../dom.js").Child][]} */ ([
    ["Name", who && serverName(who)],
    [
      "Version",
      who && (who.is_millstream ? `Millstream, speaks as nats-server ${who.version}` : `nats-server ${who.version}`),
    ],
    ["Cluster", who?.cluster],
    ["Largest message", who && bytes(who.max_payload)],
  ]);
  const mine = told.connections;
  if (mine && !server)
    rows.push(
      ["Connections", h("a", { href: href(["connections"]) }, number(mine.connections))],
      ["Subscriptions", number(mine.subscriptions)],
      ["Slow consumers", mine.slow_consumers ? tag(number(mine.slow_consumers), "warn") : number(mine.slow_consumers)],
    );
  if (server) {
    const step = server.longest_step;
    rows.push(
      ["Connections", h("a", { href: href(["connections"]) }, number(server.connections))],
      [
        "Slow consumers",
        server.slow_consumers ? tag(number(server.slow_consumers), "warn") : number(server.slow_consumers),
      ],
      ["Memory", bytes(server.mem)],
      ["CPU", server.cpu === null || server.cpu === undefined ? "–" : `${Math.round(server.cpu)} %`],
      ["Up for", typeof server.uptime === "number" ? duration(server.uptime) : server.uptime],
      ["Longest loop step", step && `${duration(step.seconds)} (${step.name}) at ${time(step.time)}`],
    );
  }
  fill(
    place,
    factsOf(rows),
    !server &&
      h(
        "p",
        { class: "note" },
        icon("lock"),
        h("span", {}, "Memory and CPU of the server are shown to users of its system account."),
      ),
  );
}

/** @param {[string, import("../dom.js").Child][]} rows */
function factsOf(rows) {
  return h(
    "dl",
    { class: "facts" },
    rows
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "value-line" }, value))),
  );
}

/** @param {number|undefined} value @param {number|undefined} most @param {(n: number) => string} [form] */
function used(value, most, form = number) {
  return most && most > 0 ? `${form(value ?? 0)} of ${form(most)}` : `${form(value ?? 0)}, no limit`;
}

/** @param {Element} place @param {any} account */
function showAccount(place, account) {
  if (!account) {
    fill(
      place,
      session.who?.jetstream === false
        ? empty("JetStream is off.", "The server stores nothing: start it with -js for streams, keys and objects.")
        : notPermitted("the account"),
    );
    return;
  }
  const limits = account.limits ?? {};
  const tiers = Object.entries(account.tiers ?? {});
  fill(
    place,
    factsOf([
      ["Disk", meter(account.storage ?? 0, limits.max_storage, used(account.storage, limits.max_storage, bytes))],
      ["Memory", meter(account.memory ?? 0, limits.max_memory, used(account.memory, limits.max_memory, bytes))],
      ["Streams", meter(account.streams ?? 0, limits.max_streams, used(account.streams, limits.max_streams))],
      ["Consumers", meter(account.consumers ?? 0, limits.max_consumers, used(account.consumers, limits.max_consumers))],
      ["Domain", account.domain],
      ["API", account.api && `${plural(account.api.total ?? 0, "call")}, ${plural(account.api.errors ?? 0, "error")}`],
      ["Tiers", tiers.length ? tiers.map(([name]) => name).join(", ") : null],
    ]),
  );
}
