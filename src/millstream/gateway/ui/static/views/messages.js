/** Messages of a stream, read without a consumer: nothing is consumed, whatever the retention. */
import { Problem, isAbort, pathOf } from "../api.js";
import { field, input, select } from "../components/form.js";
import { complaint, empty, failed, notPermitted } from "../components/states.js";
import { table } from "../components/table.js";
import { bodyOf } from "../decode/bytes.js";
import { fill, h } from "../dom.js";
import { bytes, number, plural, time } from "../format.js";
import { here, href, setQuery } from "../router.js";
import { openMessage } from "./message.js";
import { streamFrame } from "./stream_frame.js";

const LIMIT = 50;
const PREVIEW = 160;

/** @param {import("../app.js").Context} context */
export default async function messages(context) {
  const name = context.params.stream;
  const path = `v2/streams/${pathOf(name)}`;
  context.setTitle(`Messages of ${name}`);
  const info = await context.get(path);
  const seek = makeSeek(context.query, () => load(seek.read()));
  const place = h("div", {});
  const rows = table({
    caption: "Messages",
    onOpen: open,
    columns: [
      {
        name: "Sequence",
        isHeader: true,
        isNumber: true,
        class: "tight",
        cell: (row) => h("button", { type: "button", class: "link", on: { click: () => open(row) } }, number(row.seq)),
      },
      { name: "Time", class: "tight", cell: (row) => h("span", { title: row.time }, time(row.time)) },
      { name: "Subject", class: "plain", cell: (row) => h("span", { class: "mono" }, row.subject) },
      { name: "Size", isNumber: true, cell: (row) => bytes(bodyOf(row).length) },
      { name: "Body", class: "clip plain", cell: (row) => h("span", { class: "mono dim" }, preview(row)) },
    ],
  });
  const note = h("div", { "aria-live": "polite" });
  const older = h("button", { type: "button" }, "Older");
  const newer = h("button", { type: "button" }, "Newer");
  const pages = h("div", { class: "pager" }, note, h("span", { class: "actions" }, older, newer));
  /** @type {any} */
  let told = { messages: [] };
  let state = info.state;
  let turn = 0;

  /** @param {any} row */
  async function open(row) {
    setQuery({ ...seek.read(), open: row.seq });
    const change = await openMessage(name, row, info.config);
    if (context.scope.ended) return;
    if (here().query.open === String(row.seq)) setQuery(seek.read()); // unless the address has moved on
    if (change) load(seek.read());
  }

  /** @param {Object<string, string>} wanted */
  async function load(wanted) {
    const mine = (turn += 1);
    setQuery(wanted);
    try {
      state = (await context.get(path)).state;
      const answer = await context.get(`${path}/messages`, queryOf(wanted, state));
      if (mine !== turn) return;
      told = answer;
      rows.show(isNewestFirst(wanted) ? [...told.messages].reverse() : told.messages);
      fill(place, told.messages.length ? rows.element : nothing(wanted));
      fill(note, foundText(told, wanted));
    } catch (error) {
      if (mine !== turn || isAbort(error)) return;
      if (!(error instanceof Problem)) throw error;
      fill(
        place,
        error.isForbidden
          ? notPermitted("messages of this stream", error.detail)
          : error.status === 400
            ? complaint(error)
            : failed(error, () => load(wanted)),
      );
      fill(note);
    }
    const first = told.messages[0]?.seq ?? 0;
    older.disabled = !first || first <= state.first_seq;
    newer.disabled = !nextOf(told);
  }

  /** @param {Object<string, string>} wanted */
  function nothing(wanted) {
    if (!state.messages)
      return empty(
        "The stream is empty.",
        "Publish to one of its subjects.",
        h("a", { class: "button", href: href(["publish"]) }, "Publish"),
      );
    if (nextOf(told))
      return empty("Nothing found so far.", "The search has looked at a part of the stream. “Newer” goes on.");
    return empty(
      "No message fits.",
      wanted.seq || wanted.since
        ? "There is nothing from that place on: begin earlier."
        : "Try another subject or text.",
    );
  }

  newer.addEventListener("click", () => {
    const next = nextOf(told);
    if (next) load(seek.set({ seq: String(next), since: "", at: "seq" }));
  });
  older.addEventListener("click", () => {
    const first = told.messages[0]?.seq ?? state.last_seq;
    load(seek.set({ seq: String(Math.max(state.first_seq, first - LIMIT)), since: "", at: "seq" }));
  });
  await load(seek.read());
  if (context.query.open) {
    const row =
      told.messages.find((/** @type {any} */ each) => String(each.seq) === context.query.open) ??
      (await context.get(`${path}/messages/${Number(context.query.open)}`));
    context.scope.after(0, () => open(row));
  }
  return [
    streamFrame(name, "Messages", { config: info.config }),
    h("section", { class: "card", "aria-label": "Messages" }, seek.element, place, pages),
  ];
}

/** @param {any} told */
function nextOf(told) {
  return told.next ?? told.next_seq;
}

/** @param {Object<string, string>} wanted */
function isNewestFirst(wanted) {
  return !wanted.at && !wanted.search && !wanted.subject;
}

/** @param {any} told @param {Object<string, string>} wanted */
function foundText(told, wanted) {
  const count = told.messages.length;
  const more = nextOf(told)
    ? wanted.search
      ? "; the search can go on"
      : "; there are newer ones"
    : "; that is the end";
  return `${plural(count, "message")}, ${isNewestFirst(wanted) ? "newest" : "oldest"} first${more}`;
}

/** @param {Object<string, string>} wanted @param {any} state */
function queryOf(wanted, state) {
  const query = /** @type {Object<string, any>} */ ({ limit: LIMIT, subject: wanted.subject, search: wanted.search });
  if (wanted.since) query.since = new Date(wanted.since).toISOString();
  else if (wanted.seq) query.seq = wanted.seq;
  else if (wanted.at === "first" || wanted.search || wanted.subject) query.seq = Math.max(1, state.first_seq);
  else query.seq = Math.max(1, state.first_seq, state.last_seq - LIMIT + 1);
  return query;
}

/** @param {any} row */
function preview(row) {
  if (row.base64 !== undefined) return `base64 ${row.base64.slice(0, PREVIEW)}`;
  return (row.data ?? "").slice(0, PREVIEW).replace(/\s+/g, " ");
}

/**
 * Where to begin, and what to look for.
 * @param {Object<string, string>} query
 * @param {() => void} onSeek
 */
function makeSeek(query, onSeek) {
  const at = select(
    [
      ["last", "the newest"],
      ["first", "the oldest"],
      ["seq", "a sequence"],
      ["time", "a time"],
    ],
    { value: query.at ?? (query.seq ? "seq" : query.since ? "time" : "last") },
  );
  const seq = input({ type: "number", min: 1, value: query.seq ?? "" });
  const since = input({ type: "datetime-local", step: 1, value: query.since ?? "" });
  const subject = input({ value: query.subject ?? "", placeholder: "orders.*" });
  const search = input({ type: "search", value: query.search ?? "", placeholder: "text in subject, headers, body" });
  const seqField = field("Sequence", seq);
  const timeField = field("Time", since);
  const draw = () => {
    seqField.hidden = at.value !== "seq";
    timeField.hidden = at.value !== "time";
  };
  at.addEventListener("change", draw);
  draw();
  const element = h(
    "form",
    {
      class: "bar",
      role: "search",
      on: {
        submit: (/** @type {Event} */ event) => {
          event.preventDefault();
          onSeek();
        },
      },
    },
    field("From", at),
    seqField,
    timeField,
    field("Subject", subject),
    h("div", { class: "field grow" }, field("Search", search)),
    h("button", { type: "submit", class: "primary" }, "Show"),
  );
  return {
    element,
    /** @returns {Object<string, string>} */
    read: () => ({
      at: at.value === "last" ? "" : at.value,
      seq: at.value === "seq" ? seq.value : "",
      since: at.value === "time" ? since.value : "",
      subject: subject.value.trim(),
      search: search.value,
    }),
    /** @param {{at: string, seq: string, since: string}} next */
    set(next) {
      at.value = next.at;
      seq.value = next.seq;
      since.value = next.since;
      draw();
      return this.read();
    },
  };
}
