/** Streams that hold dead letters. */
import { heading } from "../components/page.js";
import { empty, into } from "../components/states.js";
import { table } from "../components/table.js";
import { h } from "../dom.js";
import { ago, number } from "../format.js";
import { href } from "../router.js";

/** @param {import("../app.js").Context} context */
export default async function letters(context) {
  context.setTitle("Dead letters");
  const place = h("div", {});
  await into(place, "dead letters", async () => {
    const told = await context.get("v2/dead-letters");
    const streams = told.streams ?? [];
    if (!streams.length)
      return empty(
        "There are no dead letters.",
        "The pipeline job “dead-letters” stores messages that were delivered too often; streams with such letters are listed here.",
      );
    const rows = table({
      caption: "Streams with dead letters",
      columns: [
        {
          name: "Stream",
          isHeader: true,
          cell: (row) => h("a", { href: href(["letters", row.stream]) }, row.stream),
        },
        { name: "Letters", isNumber: true, cell: (row) => number(row.messages) },
        { name: "Last reason", cell: (row) => row.last_reason ?? "" },
        { name: "Last", class: "tight", cell: (row) => ago(row.last_time) },
      ],
    });
    rows.show(streams);
    return rows.element;
  });
  return [heading("Dead letters"), h("section", { class: "card", "aria-label": "Streams with dead letters" }, place)];
}
