/**
 * One key: its value, its revisions, and changes to it.  A change names the revision that it is based on, so
 * the server refuses it if somebody else was faster; then both values are shown, and the user decides.
 */
import { Problem, call, pathOf, remove } from "../api.js";
import { confirmDanger, openDialog } from "../components/dialog.js";
import { area, field, input } from "../components/form.js";
import { tag } from "../components/page.js";
import { payload } from "../components/payload.js";
import { changeButton, empty } from "../components/states.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { bodyOf, fromBase64, toText } from "../decode/bytes.js";
import { fill, h, setText } from "../dom.js";
import { bytes, number, time } from "../format.js";
import { Feed } from "../live.js";

const QUIET_MS = 40_000;

/** @param {string} bucket @param {string} key */
const pathTo = (bucket, key) => `v2/kv/${pathOf(bucket)}/${pathOf(key)}`;

/**
 * @param {import("../app.js").Context} context
 * @param {string} bucket
 * @param {string} key
 * @param {() => void} onGone
 */
export async function keyPanel(context, bucket, key, onGone) {
  const value = h("div", { class: "message-detail" });
  const revisions = h("div", { class: "message-detail" });
  const news = h("p", { class: "dim", role: "status" });
  const path = pathTo(bucket, key);
  /** @type {any[]} */
  let entries = [];

  async function load() {
    const told = await context.get(path, { history: true });
    entries = told.entries ?? told.history ?? told;
    draw();
  }

  function draw() {
    const last = entries[entries.length - 1];
    const isThere = last && (last.operation ?? "put") === "put";
    fill(
      value,
      h(
        "div",
        { class: "row" },
        h("h2", { class: "mono" }, key),
        last && tag(`revision ${number(last.revision)}`),
        !isThere && tag("deleted", "warn"),
      ),
      isThere ? payload(bodyOf(last)) : empty("The key has no value.", "It was deleted. Older values may be below."),
      h(
        "div",
        { class: "actions" },
        changeButton("Edit…", () => edit(bucket, key, last, load), { class: "primary" }),
        changeButton("Delete…", () => drop(false), { class: "warning", disabled: !isThere }),
        changeButton("Purge…", () => drop(true), { class: "warning" }),
      ),
    );
    fill(revisions, h("h3", {}, "Revisions"), history([...entries].reverse()));
  }

  /** @param {boolean} isPurge */
  function drop(isPurge) {
    confirmDanger({
      title: `${isPurge ? "Purge" : "Delete"} ${key}`,
      text: isPurge
        ? "The value and all older revisions are removed."
        : "The key has no value from then on. Older revisions stay in its history.",
      action: isPurge ? "Purge it" : "Delete it",
      act: async () => {
        await remove(path, isPurge ? { purge: "true" } : {});
        toast(`${key} is ${isPurge ? "purged" : "deleted"}`);
        await load();
        onGone();
      },
    });
  }

  await load();
  new Feed(context.scope, `v2/kv/${pathOf(bucket)}/watch`, {
    query: { key, new: "true" },
    quietMs: QUIET_MS,
    resumes: true,
    onEvent: (event) => {
      const last = entries[entries.length - 1];
      if (!event.data.revision || event.data.revision <= (last?.revision ?? 0)) return;
      setText(news, `Changed to revision ${number(event.data.revision)} at ${time(new Date())}.`);
      load().catch(() => {});
    },
  });
  return h("div", { class: "message-detail" }, value, news, revisions);
}

/** @param {any[]} entries newest first */
function history(entries) {
  const rows = table({
    caption: "Revisions",
    columns: [
      { name: "Revision", isHeader: true, class: "tight", cell: (row) => number(row.revision) },
      { name: "When", class: "tight", cell: (row) => time(row.time ?? row.created) },
      { name: "What", class: "tight", cell: (row) => row.operation ?? "put" },
      {
        name: "Value",
        class: "clip rest",
        cell: (row) =>
          h(
            "span",
            { class: "mono dim" },
            (toText(bodyOf(row)) ?? `${bytes(bodyOf(row).length)} of binary data`).slice(0, 120),
          ),
      },
      {
        name: "Actions",
        isQuiet: true,
        class: "tight",
        cell: (row) =>
          bodyOf(row).length > 0 &&
          h(
            "button",
            {
              type: "button",
              class: "quiet",
              on: {
                click: () =>
                  openDialog({ title: `Revision ${row.revision}`, isWide: true, body: payload(bodyOf(row)) }),
              },
            },
            "Show",
          ),
      },
    ],
  });
  rows.show(entries);
  return rows.element;
}

/**
 * Change a value; only if its revision is still the one that is shown.
 * @param {string} bucket @param {string} key @param {any} last
 * @param {() => Promise<void>} reload
 */
function edit(bucket, key, last, reload) {
  const body = last ? bodyOf(last) : new Uint8Array();
  const text = (last?.operation ?? "put") === "put" ? toText(body) : "";
  const box = area({ rows: 12, value: text ?? last.base64 ?? "" });
  const ttl = input({ placeholder: "it stays" });
  const conflict = h("div", {});
  let revision = last?.revision ?? 0;
  openDialog({
    title: `Edit ${key}`,
    isWide: true,
    body: [
      field(text === null ? "Value (base64)" : "Value", box),
      field("Time to live, seconds", ttl, { hint: "If the bucket allows it." }),
      conflict,
    ],
    action: "Save",
    act: async () => {
      try {
        await put(bucket, key, text === null ? fromBase64(box.value) : box.value, revision, ttl.value);
      } catch (error) {
        if (!(error instanceof Problem) || (error.status !== 412 && error.status !== 409)) throw error;
        revision = await showConflict(conflict, bucket, key, revision);
        throw new Problem(
          error.status,
          "Somebody else changed this key",
          revision ? "Compare both values. Saving again replaces the other one." : "Saving again makes it anew.",
        );
      }
      toast(`${key} is saved`);
      await reload();
    },
  });
}

/** @param {Element} place @param {string} bucket @param {string} key @param {number} mine @returns {Promise<number>} the revision there is now */
async function showConflict(place, bucket, key, mine) {
  let now;
  try {
    const response = await call("GET", pathTo(bucket, key), { headers: { Accept: "application/json" } });
    now = await response.json();
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
    fill(place, h("p", { class: "note", data: { conflict: "" } }, "The key was deleted meanwhile."));
    return 0;
  }
  fill(
    place,
    h(
      "div",
      { class: "note", data: { conflict: "" } },
      h(
        "div",
        {},
        h(
          "p",
          {},
          `Your edit is based on revision ${number(mine)}. Revision ${number(now.revision)} is from ${time(now.time ?? now.created)}:`,
        ),
        payload(bodyOf(now)),
      ),
    ),
  );
  return now.revision;
}

/**
 * @param {string} bucket @param {string} key @param {BodyInit|Uint8Array} body @param {number} revision 0: it must not exist
 * @param {string} ttl seconds
 */
async function put(bucket, key, body, revision, ttl) {
  const headers = /** @type {Object<string, string>} */ ({ "Content-Type": "application/octet-stream" });
  if (revision) headers["If-Match"] = `"${revision}"`;
  else headers["If-None-Match"] = "*";
  await call("PUT", pathTo(bucket, key), {
    body: /** @type {BodyInit} */ (body),
    headers,
    ...(ttl ? { query: { ttl } } : {}),
  });
}

/** @param {string} bucket @param {(key: string) => void} choose @param {() => void} redraw */
export function newKey(bucket, choose, redraw) {
  const key = input({ placeholder: "config.colour" });
  const value = area({ rows: 8 });
  const ttl = input({ placeholder: "it stays" });
  openDialog({
    title: `New key in ${bucket}`,
    isWide: true,
    body: [
      field("Key", key, { hint: "Letters, digits and - / _ =; dots make levels." }),
      field("Value", value),
      field("Time to live, seconds", ttl, { hint: "If the bucket allows it." }),
    ],
    action: "Save",
    allowed: () => key.value.trim() !== "",
    act: async () => {
      const name = key.value.trim();
      try {
        await put(bucket, name, value.value, 0, ttl.value);
      } catch (error) {
        if (error instanceof Problem && (error.status === 412 || error.status === 409))
          throw new Problem(error.status, "The key exists", "Choose it in the tree to edit it.");
        throw error;
      }
      toast(`${name} is saved`);
      await redraw();
      choose(name);
    },
  });
}
