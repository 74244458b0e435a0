/** What arrives in a stream, as it arrives; a bounded number of lines, which can be paused. */
import { Problem, isAbort, pathOf } from "../api.js";
import { field, input } from "../components/form.js";
import { complaint } from "../components/states.js";
import { toText, bodyOf } from "../decode/bytes.js";
import { fill, h, setText } from "../dom.js";
import { bytes, clock, number, plural } from "../format.js";
import { Feed, link } from "../live.js";
import { setQuery } from "../router.js";
import { openMessage } from "./message.js";
import { streamFrame } from "./stream_frame.js";

const MOST_LINES = 500;
const MOST_WAITING = 500; // while paused
const MOST_BYTES = 8 * 1024 * 1024; // of all lines
const QUIET_MS = 40_000; // pings come every 15 seconds
const PREVIEW = 300;
const LOOK_MS = 1000;
const LOOKED_AT = 200; // messages at once

/** @param {import("../app.js").Context} context */
export default async function tail(context) {
  const name = context.params.stream;
  context.setTitle(`Live tail of ${name}`);
  const info = await context.get(`v2/streams/${pathOf(name)}`);
  const isQueue = info.config.retention === "workqueue";
  const lines = h("ol", { class: "tail", tabindex: "0", "aria-label": "Messages as they arrive" });
  const counted = h("span", { class: "dim" }, "Waiting for messages.");
  const trouble = h("div", {});
  const subject = input({ value: context.query.subject ?? "", placeholder: "all subjects" });
  const text = input({ type: "search", value: context.query.text ?? "", placeholder: "text in subject or body" });
  const pause = h("button", { type: "button", "aria-pressed": "false" }, "Pause");
  const clear = h("button", { type: "button" }, "Clear");
  /** @type {{message: any, size: number, line: Element|null}[]} */
  let kept = [];
  /** @type {any[]} */
  let waiting = [];
  let dropped = 0;
  let seen = 0;
  let size = 0;
  let isPaused = false;
  /** @type {{stop: () => void}|null} */
  let feed = null;

  /** @param {any} message */
  function arrive(message) {
    seen += 1;
    if (text.value && !fits(message, text.value)) return count();
    waiting.push(message);
    if (waiting.length > MOST_WAITING) {
      waiting.shift();
      dropped += 1;
    }
    if (!isPaused) schedule();
    return count();
  }

  let frame = 0;
  function schedule() {
    if (!frame) frame = requestAnimationFrame(draw);
  }
  context.scope.add(() => cancelAnimationFrame(frame));

  function draw() {
    frame = 0;
    const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
    for (const message of waiting) {
      const entry = { message, size: (message.data ?? message.base64 ?? "").length, line: lineOf(message) };
      kept.push(entry);
      size += entry.size;
      lines.append(entry.line);
    }
    waiting = [];
    while (kept.length > MOST_LINES || (size > MOST_BYTES && kept.length > 1)) {
      const oldest = kept.shift();
      size -= oldest?.size ?? 0;
      oldest?.line?.remove();
    }
    if (atEnd) lines.scrollTop = lines.scrollHeight;
    count();
  }

  function count() {
    const paused = isPaused ? `; paused, ${plural(waiting.length, "message")} waiting` : "";
    const lost = dropped ? `; ${number(dropped)} not kept while paused` : "";
    setText(counted, seen ? `${plural(seen, "message")} since you look${paused}${lost}` : "Waiting for messages.");
  }

  /** @param {any} message */
  function lineOf(message) {
    const body = bodyOf(message);
    const shown = toText(body);
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "link", on: { click: () => openMessage(name, message, info.config) } },
        `#${number(message.seq)}`,
      ),
      h("span", { class: "dim", title: message.time }, clock(new Date(message.time))),
      h("span", { class: "mono" }, message.subject),
      h(
        "span",
        { class: "mono dim" },
        shown === null ? `${bytes(body.length)} of binary data` : shown.slice(0, PREVIEW).replace(/\s+/g, " "),
      ),
    );
  }

  function connect() {
    feed?.stop();
    fill(trouble);
    setQuery({ subject: subject.value.trim(), text: text.value });
    if (isQueue)
      feed = look(context, name, subject.value.trim(), arrive, (problem) => fill(trouble, complaint(problem)));
    else
      feed = new Feed(context.scope, `v2/streams/${pathOf(name)}/live`, {
        query: { start: "new", subject: subject.value.trim() },
        quietMs: QUIET_MS,
        resumes: true,
        onEvent: (event) => arrive(event.data),
        onRefused: (problem) => fill(trouble, complaint(problem)),
      });
  }

  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    setText(pause, isPaused ? "Resume" : "Pause");
    if (isPaused) return count();
    dropped = 0;
    return draw();
  });
  clear.addEventListener("click", () => {
    kept = [];
    waiting = [];
    size = seen = dropped = 0;
    fill(lines);
    count();
  });
  const form = h(
    "form",
    {
      class: "bar",
      on: {
        submit: (/** @type {Event} */ event) => {
          event.preventDefault();
          connect();
        },
      },
    },
    field("Subject", subject),
    h("div", { class: "field grow" }, field("Only with", text)),
    h("div", { class: "actions" }, h("button", { type: "submit" }, "Apply"), pause, clear),
  );
  connect();
  return [
    streamFrame(name, "Live tail", { config: info.config }),
    h(
      "section",
      { class: "card", "aria-label": "Live tail" },
      form,
      isQueue && h("p", { class: "note" }, QUEUE),
      trouble,
      h("p", { role: "status" }, counted),
      lines,
    ),
  ];
}

const QUEUE =
  "A work queue gives each message to one consumer, so this page does not subscribe: it looks every second, and does not see what is acknowledged sooner.";

/**
 * Follow a stream without a consumer.
 * @param {import("../app.js").Context} context
 * @param {string} stream
 * @param {string} subject
 * @param {(message: any) => void} arrive
 * @param {(problem: Problem) => void} refuse
 */
function look(context, stream, subject, arrive, refuse) {
  const scope = context.scope.child();
  const path = `v2/streams/${pathOf(stream)}`;
  let next = 0;
  let isLooking = false;
  const once = async () => {
    if (isLooking || document.hidden) return;
    isLooking = true;
    try {
      if (!next) next = (await context.get(path)).state.last_seq + 1;
      const told = await context.get(`${path}/messages`, { seq: next, subject, limit: LOOKED_AT });
      for (const message of told.messages) arrive(message);
      next = told.messages.length ? told.messages[told.messages.length - 1].seq + 1 : next;
    } catch (error) {
      if (isAbort(error) || !(error instanceof Problem)) return;
      if (!error.isAway) {
        scope.end();
        refuse(error);
      }
    } finally {
      isLooking = false;
    }
  };
  scope.every(LOOK_MS, once);
  scope.listen(link, "try", once);
  once();
  return { stop: () => scope.end() };
}

/** @param {any} message @param {string} text */
function fits(message, text) {
  const wanted = text.toLowerCase();
  return message.subject.toLowerCase().includes(wanted) || (message.data ?? "").toLowerCase().includes(wanted);
}
