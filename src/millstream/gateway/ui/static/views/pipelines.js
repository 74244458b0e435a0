/** Pipelines: their jobs, as they report on their progress subject. */
import { tag } from "../components/page.js";
import { card, heading } from "../components/page.js";
import { empty, into, notPermitted } from "../components/states.js";
import { table } from "../components/table.js";
import { fill, h } from "../dom.js";
import { ago, duration, number, rate } from "../format.js";
import { Feed } from "../live.js";

const STATES = {
  running: "good",
  waiting: "good",
  idle: "good",
  starting: "accent",
  failed: "bad",
  retrying: "warn",
  done: "",
  stopped: "",
};

/** @param {import("../app.js").Context} context */
export default async function pipelines(context) {
  context.setTitle("Pipelines");
  const place = h("div", {});
  await into(place, "pipelines", async () => content(await context.get("v2/pipelines")));
  new Feed(context.scope, "v2/pipelines/live", {
    quietMs: 40_000,
    onEvent: (event) => fill(place, content(event.data)),
    onRefused: (problem) => problem.isForbidden && fill(place, notPermitted("pipelines", problem.detail)),
  });
  return [heading("Pipelines"), place];
}

/** @param {any} told */
function content(told) {
  const found = told.pipelines ?? [];
  if (!found.length)
    return card(
      "",
      empty("No pipeline has reported.", [
        "Start one with ",
        h("code", {}, "millstream pipeline run"),
        " and give it a progress subject: its jobs appear here.",
      ]),
    );
  return found.map((/** @type {any} */ pipeline) => card(pipeline.name ?? pipeline.pipeline, jobs(pipeline)));
}

/** @param {any} pipeline */
function jobs(pipeline) {
  const rows = table({
    caption: `Jobs of ${pipeline.name ?? pipeline.pipeline}`,
    columns: [
      { name: "Job", isHeader: true, cell: (row) => row.job ?? row.name },
      {
        name: "State",
        cell: (row) => [
          tag(row.state, STATES[/** @type {"failed"} */ (row.state)] ?? ""),
          row.error && h("p", { class: "dim" }, row.error),
        ],
      },
      { name: "Rows", isNumber: true, cell: (row) => number(row.rows) },
      { name: "Rate", isNumber: true, cell: (row) => rate(row.rate ?? row.rows_per_second) },
      {
        name: "Behind",
        isNumber: true,
        cell: (row) => [
          number(row.lag ?? row.lag_messages),
          row.lag_seconds ? h("span", { class: "dim" }, ` (${duration(row.lag_seconds)})`) : null,
        ],
      },
      { name: "Reported", class: "tight low", cell: (row) => ago(row.time) },
    ],
  });
  rows.show(pipeline.jobs ?? []);
  return rows.element;
}
