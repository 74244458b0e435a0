/** A table: headers that sort, rows that are drawn again only when their values change, a pager. */
import { fill, h } from "../dom.js";
import { number } from "../format.js";
import { icon } from "./icons.js";

/**
 * @template Row
 * @typedef {Object} Column
 * @property {string} name
 * @property {(row: Row) => import("../dom.js").Child} cell
 * @property {string} [sort] what the server calls the order by this column
 * @property {boolean} [isNumber]
 * @property {boolean} [isHeader] names the row
 * @property {string} [class]
 * @property {boolean} [desc] begin with the largest
 * @property {boolean} [isQuiet] the header is only for screen readers
 */

/**
 * @template Row
 * @param {Object} options
 * @param {string} options.caption for screen readers
 * @param {Column<Row>[]} options.columns
 * @param {(sort: string, order: string) => void} [options.onSort]
 * @param {{sort: string, order: string}} [options.order]
 * @param {(row: Row) => string} [options.rowClass]
 * @param {(row: Row) => void} [options.onOpen] for a click anywhere in a row; a button in it is for the keyboard
 */
export function table({ caption, columns, onSort, order, rowClass, onOpen }) {
  let present = order ?? { sort: "", order: "asc" };
  const body = h("tbody", { role: "rowgroup" });
  const heads = columns.map((column) => head(column));
  const element = h(
    "div",
    { class: "scroller", tabindex: "0", role: "region", "aria-label": `Table: ${caption}` },
    // roles, because a narrow screen shows rows as blocks, and these have none of their own
    h(
      "table",
      { role: "table" },
      h("caption", { class: "sr" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)),
      body,
    ),
  );

  /** @param {Column<Row>} column */
  function head(column) {
    const cell = h("th", { scope: "col", role: "columnheader", class: classOf(column) });
    if (!column.sort || !onSort) {
      fill(cell, column.isQuiet ? h("span", { class: "sr" }, column.name) : column.name);
      return cell;
    }
    const button = h(
      "button",
      { type: "button", class: "sort" },
      h("span", {}, column.name),
      h("span", { class: "arrow" }),
    );
    button.addEventListener("click", () => {
      const first = column.desc ? "desc" : "asc";
      const other = column.desc ? "asc" : "desc";
      const next = present.sort === column.sort && present.order === first ? other : first;
      present = { sort: /** @type {string} */ (column.sort), order: next };
      mark();
      onSort(present.sort, present.order);
    });
    fill(cell, button);
    return cell;
  }

  function mark() {
    columns.forEach((column, index) => {
      if (!column.sort || !onSort) return;
      const isSorted = present.sort === column.sort;
      if (isSorted) heads[index].setAttribute("aria-sort", present.order === "desc" ? "descending" : "ascending");
      else heads[index].removeAttribute("aria-sort");
      const arrow = heads[index].querySelector(".arrow");
      fill(arrow, isSorted && icon(present.order === "desc" ? "down" : "up"));
    });
  }
  mark();

  return {
    element,
    body,
    /** @param {Row[]} rows */
    show(rows) {
      fill(
        body,
        rows.map((row) => {
          const element = rowOf(columns, row, [rowClass?.(row), onOpen && "opens"].filter(Boolean).join(" "));
          if (onOpen) element.addEventListener("click", (/** @type {any} */ event) => isPlain(event) && onOpen(row));
          return element;
        }),
      );
    },
  };
}

/** Whether a click meant the row: neither something in it, nor the selection of text. @param {MouseEvent} event */
function isPlain(event) {
  const target = /** @type {Element} */ (event.target);
  return !target.closest("a, button, input, label") && !getSelection()?.toString();
}

/** @param {Column<any>} column */
function classOf(column) {
  return [column.isNumber ? "number" : "", column.class ?? ""].filter(Boolean).join(" ") || undefined;
}

/** @param {Column<any>[]} columns @param {any} row @param {string} [kind] */
function rowOf(columns, row, kind) {
  return h(
    "tr",
    { class: kind, role: "row" },
    columns.map((column) =>
      h(
        column.isHeader ? "th" : "td",
        {
          class: classOf(column),
          scope: column.isHeader ? "row" : undefined,
          role: column.isHeader ? "rowheader" : "cell",
          data: { name: column.isQuiet ? "" : column.name },
        },
        column.cell(row),
      ),
    ),
  );
}

/**
 * Pages of a list that the server keeps.
 * @param {(offset: number) => void} onPage
 * @param {string} noun of what is listed, in the plural
 */
export function pager(onPage, noun) {
  const text = h("span", { "aria-live": "polite" });
  const back = h("button", { type: "button" }, "Previous");
  const next = h("button", { type: "button" }, "Next");
  const element = h("div", { class: "pager" }, text, h("span", { class: "actions" }, back, next));
  let place = { offset: 0, limit: 1, total: 0 };
  back.addEventListener("click", () => onPage(Math.max(0, place.offset - place.limit)));
  next.addEventListener("click", () => onPage(place.offset + place.limit));
  return {
    element,
    /** @param {number} offset @param {number} limit @param {number} total @param {number} shown */
    show(offset, limit, total, shown) {
      place = { offset, limit, total };
      fill(text, total ? `${number(offset + 1)}–${number(offset + shown)} of ${number(total)} ${noun}` : `No ${noun}`);
      back.disabled = offset <= 0;
      next.disabled = offset + shown >= total;
      back.hidden = next.hidden = total <= limit && offset === 0;
    },
  };
}
