/** Objects of a store: upload and download with progress, delete, seal. */
import { isAbort, pathOf, post, remove } from "../api.js";
import { confirmDanger } from "../components/dialog.js";
import { field, input } from "../components/form.js";
import { heading, tag } from "../components/page.js";
import { changeButton, complaint, empty, into, readOnlyNote } from "../components/states.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { fill, h, setText } from "../dom.js";
import { bytes, time } from "../format.js";
import { go, href } from "../router.js";
import { session } from "../session.js";
import { download, upload } from "../transfer.js";

const PAGE = 100;

/** @param {import("../app.js").Context} context */
export default async function objects(context) {
  const name = context.params.bucket;
  const path = `v2/objects/${pathOf(name)}`;
  context.setTitle(name);
  const place = h("div", {});
  const work = h("div", { class: "causes" });
  const more = h("button", { type: "button", hidden: true }, "Show more");
  /** @type {any[]} */
  let shown = [];
  /** @type {any} */
  let after = null;
  let status = /** @type {any} */ ({});
  const rows = table({
    caption: "Objects",
    columns: [
      {
        name: "Name",
        isHeader: true,
        cell: (row) => [
          h("span", { class: "mono" }, row.name),
          (row.link ?? row.options?.link) && [" ", tag("link", "accent")],
        ],
      },
      { name: "Size", isNumber: true, cell: (row) => bytes(row.size ?? 0) },
      { name: "Changed", class: "tight", cell: (row) => time(row.mtime) },
      {
        name: "Digest",
        class: "clip",
        cell: (row) => h("span", { class: "mono dim", title: row.digest }, row.digest ?? ""),
      },
      {
        name: "Actions",
        isQuiet: true,
        class: "tight",
        cell: (row) =>
          h(
            "span",
            { class: "actions" },
            h(
              "button",
              { type: "button", on: { click: () => receive(row) }, "aria-label": `Download ${row.name}` },
              "Download",
            ),
            changeButton("Delete…", () => drop(row), { class: "quiet", "aria-label": `Delete ${row.name}` }),
          ),
      },
    ],
  });

  async function load() {
    await into(place, "objects", async () => {
      const told = await context.get(path, { after, limit: PAGE });
      status = told.store;
      shown = after ? [...shown, ...(told.objects ?? [])] : (told.objects ?? []);
      after = told.next ?? null;
      more.hidden = !after;
      if (!shown.length) return empty("The store is empty.", "Choose a file to upload it.");
      rows.show(shown);
      return rows.element;
    });
  }

  async function reload() {
    after = null;
    await load();
  }

  /**
   * Run a transfer with a bar of its own.
   * @param {string} text
   * @param {(onProgress: (done: number, size: number) => void, signal: AbortSignal) => Promise<any>} transfer
   */
  async function track(text, transfer) {
    const scope = context.scope.child();
    const bar = h("progress", { class: "progress", max: 100, value: 0, "aria-label": text });
    const said = h("span", {}, text);
    const stop = h("button", { type: "button", class: "quiet", on: { click: () => scope.end() } }, "Cancel");
    const line = h("div", { class: "cause info" }, h("div", { class: "row" }, said, stop), bar);
    work.prepend(line);
    try {
      await transfer((done, size) => {
        bar.value = size ? (100 * done) / size : 0;
        setText(said, `${text}: ${bytes(done)} of ${bytes(size)}`);
      }, scope.signal);
      line.remove();
      return true;
    } catch (error) {
      if (isAbort(error)) line.remove();
      else fill(line, complaint(error));
      return false;
    } finally {
      scope.end();
    }
  }

  /** @param {any} row */
  function receive(row) {
    return track(`Downloading ${row.name}`, (onProgress, signal) =>
      download(`${path}/${pathOf(row.name)}`, row.name, row.size ?? 0, { onProgress, signal }),
    );
  }

  /** @param {FileList} files @param {string} as */
  async function send(files, as) {
    for (const file of files) {
      const target = as || file.name;
      const done = await track(`Uploading ${target}`, (onProgress, signal) =>
        upload(`${path}/${pathOf(target)}`, file, {
          onProgress,
          signal,
          headers: { "Content-Type": file.type || "application/octet-stream" },
        }),
      );
      if (done) toast(`${target} is stored`);
    }
    await reload();
  }

  /** @param {any} row */
  function drop(row) {
    confirmDanger({
      title: `Delete ${row.name}`,
      text: "The object and its pieces are removed.",
      action: "Delete it",
      act: async () => {
        await remove(`${path}/${pathOf(row.name)}`);
        toast(`${row.name} is deleted`);
        await reload();
      },
    });
  }

  const file = input({ type: "file", multiple: true });
  const as = input({ placeholder: "as the file is called" });
  const form = h(
    "form",
    {
      class: "bar",
      on: {
        submit: (/** @type {Event} */ event) => {
          event.preventDefault();
          if (file.files?.length) send(file.files, as.value.trim());
        },
      },
    },
    field("Files", file),
    field("Name in the store", as),
    h("button", { type: "submit", class: "primary" }, "Upload"),
  );
  more.addEventListener("click", load);
  await load();
  return [
    heading(name, {
      path: [["Objects", href(["objects"])]],
      tags: status.sealed && tag("sealed", "warn"),
      actions: [
        h("a", { class: "button", href: href(["streams", `OBJ_${name}`]) }, "Its stream"),
        changeButton(
          "Seal…",
          () =>
            confirmDanger({
              title: `Seal ${name}`,
              text: "A sealed store never changes again.",
              action: "Seal it for good",
              typed: name,
              act: async () => {
                await post(path, { sealed: true });
                context.reload();
              },
            }),
          { class: "warning", disabled: !!status.sealed },
        ),
        changeButton(
          "Delete store…",
          () =>
            confirmDanger({
              title: `Delete ${name}`,
              text: "All objects in it are removed. This cannot be undone.",
              action: "Delete the store",
              typed: name,
              act: async () => {
                await remove(path);
                go(href(["objects"]));
              },
            }),
          { class: "warning" },
        ),
      ],
    }),
    h(
      "section",
      { class: "card", "aria-label": "Objects" },
      readOnlyNote(),
      !session.isReadOnly && !status.sealed && form,
      work,
      place,
      more,
    ),
  ];
}
