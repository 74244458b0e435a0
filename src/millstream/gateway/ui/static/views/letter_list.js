/** The dead letters of a stream: why each is one, the original, and sending it again. */
import { Problem, pathOf, post } from "../api.js";
import { confirmDanger, openDialog } from "../components/dialog.js";
import { area, field, headerRows, headersOf, pairsOf } from "../components/form.js";
import { facts, heading } from "../components/page.js";
import { payload } from "../components/payload.js";
import { changeButton, empty, into } from "../components/states.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { bodyOf, fromBase64, toBase64, toText } from "../decode/bytes.js";
import { fill, h, setText } from "../dom.js";
import { number, plural, time } from "../format.js";
import { here, href, setQuery } from "../router.js";
import { headerTable } from "./message.js";

const LIMIT = 50;

/** @param {import("../app.js").Context} context */
export default async function letterList(context) {
  const name = context.params.stream;
  const path = `v2/dead-letters/${pathOf(name)}`;
  context.setTitle(`Dead letters in ${name}`);
  /** @type {Set<number>} */
  const chosen = new Set();
  const place = h("div", {});
  const some = changeButton("Redrive 0 chosen", () => redrive([...chosen]));
  const all = changeButton("Redrive all…", redriveAll);
  const more = h("button", { type: "button", hidden: true }, "Show more");
  /** @type {any[]} */
  let shown = [];
  /** @type {number|null} */
  let next = null;
  const rows = table({
    caption: "Dead letters",
    onOpen: open,
    columns: [
      { name: "Choose", isQuiet: true, class: "tight", cell: (row) => choice(row.seq) },
      {
        name: "Letter",
        isHeader: true,
        class: "tight",
        cell: (row) =>
          h("button", { type: "button", class: "link", on: { click: () => open(row) } }, `#${number(row.seq)}`),
      },
      {
        name: "Original",
        cell: (row) =>
          h("span", { class: "mono" }, row.origin.subject ?? "", row.origin.seq ? ` #${number(row.origin.seq)}` : ""),
      },
      {
        name: "From",
        cell: (row) => [row.origin.stream ?? "", row.consumer && ` / ${row.consumer}`],
      },
      { name: "Reason", cell: (row) => row.reason ?? "" },
      { name: "Deliveries", isNumber: true, cell: (row) => number(row.deliveries) },
      { name: "Since", class: "tight", cell: (row) => time(row.time) },
    ],
  });

  /** @param {number} seq */
  function choice(seq) {
    const box = h("input", { type: "checkbox", checked: chosen.has(seq), "aria-label": `Choose letter ${seq}` });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(seq);
      else chosen.delete(seq);
      count();
    });
    return box;
  }

  function count() {
    setText(some, `Redrive ${number(chosen.size)} chosen`);
    some.disabled = !chosen.size;
    all.disabled = !shown.length;
  }

  async function load() {
    await into(place, "dead letters", async () => {
      const told = await context.get(path, { limit: LIMIT, start: next });
      shown = next ? [...shown, ...(told.letters ?? [])] : (told.letters ?? []);
      next = told.next ?? null;
      more.hidden = !next;
      for (const seq of [...chosen]) if (!shown.some((each) => each.seq === seq)) chosen.delete(seq);
      count();
      if (!shown.length) return empty("No letters are left here.", "Everything was redriven or removed.");
      rows.show(shown);
      return rows.element;
    });
  }

  async function reload() {
    next = null;
    chosen.clear();
    await load();
  }

  /** @param {number[]} seqs @param {any} [edited] */
  async function redrive(seqs, edited) {
    try {
      await send({ seqs, ...edited });
    } catch (error) {
      toast(/** @type {Error} */ (error).message, "warn");
      await reload();
    }
  }

  /** @param {any} body */
  async function send(body) {
    /** @type {any[]} */
    const results = [];
    let told = await post(`${path}/redrive`, body);
    results.push(...told.results);
    while (body.all && told.next && !told.results.some(isFailure)) {
      told = await post(`${path}/redrive`, { ...body, start: told.next });
      results.push(...told.results);
    }
    const failures = results.filter(isFailure);
    const done = results.length - failures.length;
    if (done || !failures.length) toast(`${plural(done, "letter")} sent to the original subject`);
    if (failures.length)
      toast(`${plural(failures.length, "letter")} failed: ${failures[0].error || failures[0].outcome}`, "warn");
    await reload();
  }

  function redriveAll() {
    confirmDanger({
      title: `Redrive all letters of ${name}`,
      text: "All letters that are here now will be published to their original subjects again.",
      action: "Redrive all",
      act: () => send({ all: true }),
    });
  }

  /** Open the letter that the address names. @param {number} seq */
  async function openAt(seq) {
    try {
      await open(await context.get(`${path}/${seq}`));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      toast(`Letter ${number(seq)} is not here any more`, "warn");
      setQuery({});
    }
  }

  /** @param {any} row */
  async function open(row) {
    setQuery({ open: row.seq });
    const letter = await context.get(`${path}/${row.seq}`).catch(() => row);
    const body = bodyOf(letter);
    const headers = pairsOf(letter.headers);
    await openDialog({
      title: `Dead letter ${row.seq}`,
      isWide: true,
      body: h(
        "div",
        { class: "message-detail" },
        facts([
          ["Reason", letter.reason],
          ["Deliveries", number(letter.deliveries)],
          ["Original subject", h("span", { class: "mono" }, letter.origin.subject ?? "")],
          [
            "Original message",
            letter.origin.seq
              ? h(
                  "a",
                  {
                    href: href(["streams", letter.origin.stream, "messages"], {
                      seq: letter.origin.seq,
                      open: letter.origin.seq,
                    }),
                  },
                  `${letter.origin.stream} #${number(letter.origin.seq)}`,
                )
              : null,
          ],
          [
            "Consumer",
            letter.consumer &&
              h("a", { href: href(["streams", letter.origin.stream, "consumers", letter.consumer]) }, letter.consumer),
          ],
        ]),
        letter.is_gone && h("p", { class: "note" }, "The original message was gone when the letter was written."),
        headers.length > 0 && headerTable(headers),
        payload(body),
        h(
          "div",
          { class: "actions" },
          changeButton(
            "Redrive",
            async () => {
              document.querySelector("dialog")?.close();
              await redrive([row.seq]);
            },
            { class: "primary" },
          ),
          changeButton("Edit and redrive…", () => {
            document.querySelector("dialog")?.close();
            edit(letter, row.seq);
          }),
        ),
      ),
    });
    if (here().query.open === String(row.seq)) setQuery({}); // unless the address has moved on
  }

  /** @param {any} letter @param {number} seq */
  function edit(letter, seq) {
    const body = bodyOf(letter);
    const text = toText(body);
    const box = area({ rows: 10, value: text ?? toBase64(body) });
    const headers = headerRows(pairsOf(letter.headers));
    openDialog({
      title: `Edit letter ${seq} and send it again`,
      isWide: true,
      body: [field(text === null ? "Body (base64)" : "Body", box), headers.element],
      action: "Redrive",
      act: () => {
        if (text === null) fromBase64(box.value);
        return send({
          seqs: [seq],
          headers: headersOf(headers.read()),
          ...(text === null ? { base64: box.value } : { data: box.value }),
        });
      },
    });
  }

  more.addEventListener("click", load);
  count();
  await load();
  if (context.query.open) openAt(Number(context.query.open));
  return [
    heading(name, { path: [["Dead letters", href(["letters"])]], actions: [some, all] }),
    h(
      "section",
      { class: "card", "aria-label": "Dead letters" },
      place,
      h("div", { class: "pager" }, fill(h("span", {})), more),
    ),
  ];
}

/** @param {any} result */
function isFailure(result) {
  return ["not_found", "refused", "failed"].includes(result.outcome);
}
