/** Pipelines: their jobs, as they report on their progress subject. */
import { card, heading, tag } from "../components/page.js";
import { empty, into, notPermitted } from "../components/states.js";
import { table } from "../components/table.js";
import { fill, h } from "../dom.js";
import { ago, number, plural, rate, time } from "../format.js";
import { Feed } from "../live.js";

const STATES = { running: "good", waiting: "accent", starting: "accent", done: "good", failed: "bad", stopped: "warn" };

/** @param {import("../app.js").Context} context */
export default async function pipelines(context) {
  context.setTitle("Pipelines");
  const place = h("div", {});
  await into(place, "pipelines", async () => content(await context.get("v2/pipelines")));
  new Feed(context.scope, "v2/pipelines/live", {
    onEvent: (event) => fill(place, content(event.data)),
    onRefused: (problem) => problem.isForbidden && fill(place, notPermitted("pipelines", problem.detail)),
  });
  return [heading("Pipelines"), place];
}

/** @param {any} told */
function content(told) {
  const heard = h("p", { class: "dim" }, "Reports on ", h("code", {}, told.subject), ` since ${time(told.since)}.`);
  if (told.jobs.length) return card("Jobs", jobTable(told.jobs), heard);
  const next = ["A pipeline reports when its file names a subject under ", h("code", {}, "[progress]"), "."];
  return card("", empty("No job has reported yet.", next), heard);
}

/** @param {any[]} jobs */
function jobTable(jobs) {
  const rows = table({
    caption: "Jobs",
    columns: [
      { name: "Job", isHeader: true, cell: (row) => [row.job, " ", row.kind && tag(row.kind)] },
      {
        name: "State",
        cell: (row) => [
          tag(row.state, STATES[/** @type {"failed"} */ (row.state)] ?? ""),
          row.text && h("p", { class: "dim" }, row.text),
        ],
      },
      { name: "Rows", isNumber: true, cell: (row) => number(row.rows) },
      { name: "Rate", isNumber: true, cell: (row) => rate(row.rate) },
      { name: "Behind", cell: (row) => lagOf(row.lag) },
      { name: "Reported", class: "tight", cell: (row) => ago(row.time) },
    ],
  });
  rows.show(jobs);
  return rows.element;
}

/** @param {Object<string, number>} lag messages by stream */
function lagOf(lag) {
  const streams = Object.entries(lag ?? {});
  return streams.map(([stream, left]) => h("div", {}, `${stream}: ${plural(left, "message")}`));
}
