/** Publish a message or ask a question, with headers, expectations and templates. */
import { Problem, address, call, pathOf } from "../api.js";
import { copyButton } from "../components/copy.js";
import { area, checkbox, field, headerRows, headersOf, input, pairsOf, select } from "../components/form.js";
import { card, facts, heading } from "../components/page.js";
import { payload } from "../components/payload.js";
import { changeButton, complaint, readOnlyNote } from "../components/states.js";
import { bodyOf, fromBase64, toText } from "../decode/bytes.js";
import { fill, h } from "../dom.js";
import { duration, number, time } from "../format.js";
import { href, setQuery } from "../router.js";
import { takeDraft } from "./drafts.js";
import { headerTable, shellWord } from "./message.js";
import { templates } from "./templates.js";

const ENVELOPE = "application/vnd.millstream.message+json";
const MOST_ANSWERS = 20;

/** @param {import("../app.js").Context} context */
export default async function publish(context) {
  context.setTitle("Publish");
  const form = makeForm(context.query);
  const answers = h(
    "div",
    { class: "causes", "aria-live": "polite" },
    h("p", { class: "dim" }, "Answers appear here."),
  );
  let count = 0;

  /** @param {boolean} isRequest */
  async function send(isRequest) {
    setQuery({ subject: form.subject.value.trim(), mode: isRequest ? "request" : "" });
    const began = performance.now();
    let shown;
    try {
      const sent = form.read(isRequest);
      const response = await call("POST", sent.path, {
        query: sent.query,
        body: JSON.stringify(sent.envelope),
        headers: { "Content-Type": ENVELOPE, Accept: "*/*" },
        signal: context.scope.signal,
      });
      shown = await answerShown(response, isRequest, performance.now() - began);
    } catch (error) {
      shown = complaint(explained(error));
    }
    if (!count) fill(answers);
    count += 1;
    answers.prepend(
      h(
        "section",
        { class: "cause info" },
        h(
          "h3",
          {},
          `${count}. ${isRequest ? "Request to" : "Published to"} `,
          h("span", { class: "mono" }, form.subject.value.trim()),
          h("span", { class: "dim" }, ` at ${time(new Date())}`),
        ),
        shown,
      ),
    );
    while (answers.children.length > MOST_ANSWERS) answers.lastElementChild?.remove();
  }

  const saved = templates(form.save, form.load);
  const publishButton = changeButton("Publish", () => send(false), { class: "primary" });
  const requestButton = changeButton("Request an answer", () => send(true));
  return [
    heading("Publish and request"),
    h(
      "div",
      { class: "grid" },
      card(
        "Message",
        readOnlyNote(),
        saved.element,
        form.element,
        h(
          "div",
          { class: "actions" },
          publishButton,
          requestButton,
          copyButton("Copy as curl", () => asCurl(form.read(false))),
          copyButton("Copy as nats", () => asNats(form.read(false))),
        ),
      ),
      card("Answers", answers),
    ),
  ];
}

/** @param {any} error */
function explained(error) {
  if (error instanceof Problem && error.status === 404) return new Problem(404, "Nobody takes it", error.detail);
  if (error instanceof Problem && error.status === 412)
    return new Problem(412, "An expectation does not hold", error.detail);
  return error;
}

/** @param {Response} response @param {boolean} isRequest @param {number} took ms */
async function answerShown(response, isRequest, took) {
  const within = duration(took / 1000);
  if (response.status === 202) return h("p", {}, `Sent to whoever listens, in ${within}.`);
  if (!isRequest) {
    const ack = await response.json();
    return facts([
      [
        "Stored in",
        h(
          "a",
          { href: href(["streams", ack.stream, "messages"], { seq: ack.seq, open: ack.seq }) },
          `${ack.stream} #${number(ack.seq)}`,
        ),
      ],
      ["Duplicate", ack.duplicate ? "yes: a message with this id was stored before" : null],
      ["Within", within],
    ]);
  }
  const headers = [...response.headers]
    .filter(([name]) => /^(nats-|millstream-header-)/i.test(name))
    .map(([name, value]) => /** @type {[string, string]} */ ([name.replace(/^millstream-header-/i, ""), value]));
  const body = new Uint8Array(await response.arrayBuffer());
  return [
    h("p", { class: "dim" }, `Answered within ${within}.`),
    headers.length > 0 && headerTable(headers),
    payload(body),
  ];
}

/** @param {Object<string, string>} query */
function makeForm(query) {
  const draft = query.draft ? takeDraft() : null;
  const draftBody = draft ? bodyOf(draft.body) : new Uint8Array();
  const draftText = toText(draftBody);
  const subject = input({ value: draft?.subject ?? query.subject ?? "", placeholder: "orders.new", required: true });
  const kind = select(
    [
      ["text", "Text or JSON"],
      ["base64", "Base64"],
    ],
    { value: draftText === null ? "base64" : "text" },
  );
  const body = area({
    rows: 9,
    value: draft ? (draftText ?? draft.body.base64 ?? "") : "",
    placeholder: '{"order": 1}',
  });
  const headers = headerRows(draft?.headers ?? []);
  const id = input({ placeholder: "none" });
  const lastSeq = input({ type: "number", min: 0, placeholder: "any" });
  const lastSubjectSeq = input({ type: "number", min: 0, placeholder: "any" });
  const stream = input({ placeholder: "any" });
  const ttl = input({ placeholder: "60s, 1h, never" });
  const timeout = input({ type: "number", min: 0.1, step: "any", placeholder: "as the gateway has it" });
  const plain = checkbox("Plain NATS: do not wait for a stream to store it");
  const expectations = h(
    "details",
    {},
    h("summary", {}, "Message id, expectations, time-out"),
    h(
      "div",
      { class: "fields" },
      field("Message id", id, { hint: "A second message with it is stored only once." }),
      field("Only into stream", stream),
      field("Only behind sequence", lastSeq),
      field("Only behind the subject's sequence", lastSubjectSeq, { hint: "0: the subject has no message yet." }),
      field("Time to live", ttl, { hint: "If the stream allows it." }),
      field("Wait for an answer, seconds", timeout),
    ),
    plain.element,
  );
  /** @type {[string, any][]} */
  const special = [
    ["Nats-Msg-Id", id],
    ["Nats-Expected-Stream", stream],
    ["Nats-Expected-Last-Sequence", lastSeq],
    ["Nats-Expected-Last-Subject-Sequence", lastSubjectSeq],
    ["Nats-TTL", ttl],
  ];
  return {
    subject,
    element: h(
      "div",
      { class: "message-detail" },
      field("Subject", subject),
      field("The body is", kind),
      field("Body", body),
      headers.element,
      expectations,
    ),
    /** @param {boolean} isRequest */
    read(isRequest) {
      const name = subject.value.trim();
      if (!name) throw new Error("A message needs a subject.");
      if (kind.value === "base64") fromBase64(body.value);
      const pairs = headers.read();
      if (!isRequest)
        for (const [header, control] of special) if (control.value !== "") pairs.push([header, control.value]);
      const envelope = {
        headers: headersOf(pairs),
        ...(kind.value === "base64" ? { base64: body.value } : { data: body.value }),
      };
      const asked = { timeout: timeout.value, ...(isRequest || !plain.control.checked ? {} : { ack: "none" }) };
      return {
        path: `v2/${isRequest ? "requests" : "subjects"}/${pathOf(name)}`,
        subject: name,
        query: asked,
        envelope,
      };
    },
    save: () => ({ subject: subject.value, kind: kind.value, body: body.value, headers: headers.read() }),
    /** @param {any} kept */
    load(kept) {
      subject.value = kept.subject ?? "";
      kind.value = kept.kind ?? "text";
      body.value = kept.body ?? "";
      headers.set(kept.headers ?? []);
    },
  };
}

/** @param {any} sent */
function asCurl(sent) {
  return `curl -X POST ${shellWord(address(sent.path, sent.query).href)} \\\n  -H 'Content-Type: ${ENVELOPE}' \\\n  --data-binary ${shellWord(JSON.stringify(sent.envelope))}`;
}

/** @param {any} sent */
function asNats(sent) {
  const headers = pairsOf(sent.envelope.headers)
    .map(([name, value]) => ` -H ${shellWord(`${name}:${value}`)}`)
    .join("");
  if (sent.envelope.base64 !== undefined)
    return `printf %s ${shellWord(sent.envelope.base64)} | base64 -d | nats pub${headers} ${shellWord(sent.subject)} --force-stdin`;
  return `nats pub${headers} ${shellWord(sent.subject)} ${shellWord(sent.envelope.data)}`;
}
