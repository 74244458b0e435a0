/** One message: its body, headers, ways to read or publish it elsewhere, and what can be done to it. */
import { address, pathOf, remove } from "../api.js";
import { copyButton } from "../components/copy.js";
import { confirmDanger, openDialog } from "../components/dialog.js";
import { pairsOf } from "../components/form.js";
import { facts } from "../components/page.js";
import { payload } from "../components/payload.js";
import { changeButton } from "../components/states.js";
import { toast } from "../components/toast.js";
import { bodyOf } from "../decode/bytes.js";
import { h } from "../dom.js";
import { time } from "../format.js";
import { keepDraft } from "./drafts.js";
import { go, href } from "../router.js";

/**
 * Show a message; resolves with true if it was removed.
 * @param {string} stream
 * @param {any} message in the shape of the API
 * @param {any} config of the stream
 */
export async function openMessage(stream, message, config) {
  let removed = false;
  const path = `v2/streams/${pathOf(stream)}/messages/${message.seq}`;
  const locked = config?.sealed || config?.deny_delete;

  /** @param {boolean} erase */
  const drop = (erase) =>
    confirmDanger({
      title: `${erase ? "Erase" : "Delete"} message ${message.seq}`,
      text: erase
        ? "Its bytes are overwritten where they are stored. Nobody can restore them."
        : "The message is removed from the stream. Its bytes stay on disk until their place is used again.",
      action: erase ? "Erase it" : "Delete it",
      act: async () => {
        await remove(path, { erase: String(erase) });
        removed = true;
        toast(`Message ${message.seq} is ${erase ? "erased" : "deleted"}`);
        document.querySelector("dialog")?.close();
      },
    });
  const republish = () => {
    keepDraft({
      subject: message.subject,
      headers: pairsOf(message.headers).filter(
        ([name]) => !/^Nats-(Expected|Msg-Id|Stream|Subject|Sequence|Time-Stamp|Last)/i.test(name),
      ),
      body: message,
    });
    go(href(["publish"], { draft: "1" }));
  };
  const headers = pairsOf(message.headers);
  await openDialog({
    title: `Message ${message.seq} of ${stream}`,
    isWide: true,
    body: h(
      "div",
      { class: "message-detail" },
      facts([
        ["Subject", h("span", { class: "mono" }, message.subject)],
        ["Stored", h("time", { datetime: message.time, title: message.time }, time(message.time))],
      ]),
      headers.length > 0 && headerTable(headers),
      payload(bodyOf(message)),
      h(
        "div",
        { class: "row" },
        h("span", { class: "dim" }, "Copy as"),
        copyButton("curl", () => asCurl(path)),
        copyButton("nats", () => asNats(stream, message.seq)),
        copyButton("Python", () => asPython(stream, message.seq)),
        copyButton("JSON", () => JSON.stringify(message, null, 2)),
      ),
      h(
        "div",
        { class: "actions" },
        changeButton("Publish again…", republish),
        changeButton("Delete…", () => drop(false), { class: "warning", disabled: locked }),
        changeButton("Erase…", () => drop(true), { class: "warning", disabled: locked }),
        locked &&
          h(
            "span",
            { class: "dim" },
            config.sealed ? "The stream is sealed." : "The stream does not let messages be deleted.",
          ),
      ),
    ),
  });
  return removed;
}

/** @param {[string, string][]} headers */
export function headerTable(headers) {
  return h(
    "table",
    {},
    h("caption", { class: "sr" }, "Headers"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Header"), h("th", { scope: "col" }, "Value"))),
    h(
      "tbody",
      {},
      headers.map(([name, value]) =>
        h("tr", {}, h("th", { scope: "row", class: "mono" }, name), h("td", { class: "mono" }, value)),
      ),
    ),
  );
}

/** A text as one word of a shell, whatever is in it. @param {string} text */
export function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** @param {string} path */
function asCurl(path) {
  return `curl ${shellWord(address(path).href)}`;
}

/** @param {string} stream @param {number} seq */
function asNats(stream, seq) {
  return `nats stream get ${shellWord(stream)} ${seq}`;
}

/** @param {string} stream @param {number} seq */
function asPython(stream, seq) {
  return [
    "import asyncio",
    "import nats",
    "",
    "async def main():",
    "    connection = await nats.connect()",
    `    message = await connection.jetstream().get_msg(${JSON.stringify(stream)}, ${seq})`,
    "    print(message.subject, message.headers, message.data)",
    "    await connection.close()",
    "",
    "asyncio.run(main())",
  ].join("\n");
}
