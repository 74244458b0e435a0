/** Connections of clients to the server. */
import { pathOf, remove } from "../api.js";
import { confirmDanger, openDialog } from "../components/dialog.js";
import { facts, heading, tag } from "../components/page.js";
import { changeButton, empty } from "../components/states.js";
import { toast } from "../components/toast.js";
import { h } from "../dom.js";
import { bytes, number, time } from "../format.js";
import { session } from "../session.js";
import { list } from "./list.js";

/** @param {import("../app.js").Context} context */
export default async function connections(context) {
  context.setTitle("Connections");
  const isSystem = !!session.who?.is_system;
  const rows = list(context, {
    noun: "connections",
    path: "v2/connections",
    key: "connections",
    sort: "cid",
    columns: [
      {
        name: "Client",
        sort: "cid",
        isHeader: true,
        cell: (row) =>
          h(
            "button",
            { type: "button", class: "link", on: { click: () => open(row) } },
            row.name || `Connection ${row.cid}`,
          ),
      },
      {
        name: "User",
        cell: (row) => [
          row.authorized_user ?? row.user ?? "",
          isSystem && row.account && h("span", { class: "dim" }, ` ${row.account}`),
        ],
      },
      { name: "Address", cell: (row) => `${row.ip}:${row.port}` },
      { name: "Library", cell: (row) => [row.lang, row.version].filter(Boolean).join(" ") },
      { name: "Subscriptions", sort: "subs", desc: true, isNumber: true, cell: (row) => number(row.subscriptions) },
      {
        name: "From client",
        sort: "in_msgs",
        desc: true,
        isNumber: true,
        cell: (row) => [number(row.in_msgs), h("br"), h("span", { class: "dim" }, bytes(row.in_bytes))],
      },
      {
        name: "To client",
        sort: "out_msgs",
        desc: true,
        isNumber: true,
        cell: (row) => [number(row.out_msgs), h("br"), h("span", { class: "dim" }, bytes(row.out_bytes))],
      },
      {
        name: "Waiting",
        sort: "pending",
        desc: true,
        isNumber: true,
        cell: (row) => (row.pending_bytes ? tag(bytes(row.pending_bytes), "warn") : "0"),
      },
    ],
    empty: () => empty("No client is connected.", "The gateway's own connection is listed while it is in use."),
  });

  /** @param {any} row */
  async function open(row) {
    const server = row.server_id ?? row.server?.id ?? session.who?.server.id ?? "";
    const kick = changeButton(
      "Disconnect…",
      () =>
        confirmDanger({
          title: `Disconnect ${row.name || `connection ${row.cid}`}`,
          text: "The server closes the connection. Most clients connect again by themselves.",
          action: "Disconnect it",
          act: async () => {
            await remove(`v2/connections/${pathOf(server, row.cid)}`);
            toast("The connection is closed");
            document.querySelector("dialog")?.close();
            rows.reload();
          },
        }),
      { class: "warning", disabled: !isSystem },
    );
    const subjects = await subscriptionsOf(context, row);
    await openDialog({
      title: row.name || `Connection ${row.cid}`,
      isWide: true,
      body: h(
        "div",
        { class: "message-detail" },
        facts([
          [
            "Connection",
            `${row.cid}${(row.server_name ?? row.server?.name) ? ` at ${row.server_name ?? row.server?.name}` : ""}`,
          ],
          ["User", row.authorized_user ?? row.user],
          ["Account", row.account],
          ["Address", `${row.ip}:${row.port}`],
          ["Library", [row.lang, row.version].filter(Boolean).join(" ")],
          ["Since", time(row.start)],
          ["Last active", time(row.last_activity)],
          ["Round trip", row.rtt],
          ["Idle", row.idle],
          ["TLS", row.tls_version],
          ["From client", `${number(row.in_msgs)} messages, ${bytes(row.in_bytes)}`],
          ["To client", `${number(row.out_msgs)} messages, ${bytes(row.out_bytes)}`],
        ]),
        subjects.length > 0 &&
          h(
            "div",
            {},
            h("h3", {}, "Subscriptions"),
            h(
              "ul",
              { class: "mono" },
              subjects
                .slice(0, 500)
                .map((/** @type {any} */ each) => h("li", {}, typeof each === "string" ? each : each.subject)),
            ),
          ),
        h(
          "div",
          { class: "actions" },
          kick,
          !isSystem && h("span", { class: "dim" }, "Only users of the system account may disconnect clients."),
        ),
      ),
    });
  }

  return [heading("Connections"), rows.element];
}

/** @param {import("../app.js").Context} context @param {any} row @returns {Promise<any[]>} */
async function subscriptionsOf(context, row) {
  const told = await context.get("v2/connections", { subscriptions: "true", search: row.name || row.ip, limit: 200 });
  const found = told.connections.find(
    (/** @type {any} */ each) => each.cid === row.cid && each.server_id === row.server_id,
  );
  return found?.subscriptions_list ?? [];
}
