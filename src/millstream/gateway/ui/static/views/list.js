/**
 * A list that the server searches, sorts and cuts into pages; its state is in the address.  Shared by streams,
 * consumers, connections and others.
 */
import { Problem, isAbort } from "../api.js";
import { searchField } from "../components/form.js";
import { failed, notPermitted } from "../components/states.js";
import { pager, table } from "../components/table.js";
import { fill, h } from "../dom.js";
import { link } from "../live.js";
import { setQuery } from "../router.js";
import { debounced } from "../scope.js";

const LIMIT = 50;
const TYPING_MS = 180;
const REFRESH_MS = 5000;

/**
 * @typedef {Object} ListOptions
 * @property {string} noun in the plural
 * @property {string} path
 * @property {string} key of the rows in the answer
 * @property {import("../components/table.js").Column<any>[]} columns
 * @property {string} sort the order to begin with
 * @property {string} [order]
 * @property {Object<string, any>} [query] sent with each call
 * @property {() => import("../dom.js").Child} empty shown when there is nothing at all
 * @property {import("../dom.js").Child} [tools] beside the search
 * @property {(query: any) => Promise<any>} [load] instead of a call of `path`
 * @property {boolean} [searches] the server searches; true unless said otherwise
 * @property {(row: any) => string} [rowClass]
 */

/**
 * @param {import("../app.js").Context} context
 * @param {ListOptions} options
 */
export function list(context, options) {
  const state = {
    search: context.query.search ?? "",
    sort: context.query.sort ?? options.sort,
    order: context.query.order ?? options.order ?? "asc",
    offset: Number(context.query.offset) || 0,
  };
  const note = h("div", {});
  const rows = table({
    caption: options.noun,
    columns: options.columns,
    order: state,
    rowClass: options.rowClass,
    onSort: (sort, order) => change({ sort, order, offset: 0 }),
  });
  const pages = pager((offset) => change({ offset }), options.noun);
  const seek = debounced(context.scope, TYPING_MS, (search) => change({ search, offset: 0 }));
  const search = options.searches === false ? null : searchField(`Search ${options.noun}`, state.search, seek);
  const content = h(
    "div",
    { class: "card" },
    h("div", { class: "row" }, search, options.tools),
    note,
    rows.element,
    pages.element,
  );
  let turn = 0;

  /** @param {Partial<typeof state>} next */
  function change(next) {
    Object.assign(state, next);
    const standard = { search: "", sort: options.sort, order: options.order ?? "asc", offset: 0 };
    const told = Object.entries(state).filter(([name, value]) => value !== standard[/** @type {"search"} */ (name)]);
    setQuery({ ...options.query, ...Object.fromEntries(told) });
    load();
  }

  /** Load the page; a later call makes this one void. */
  async function load() {
    const mine = (turn += 1);
    rows.element.setAttribute("aria-busy", "true");
    try {
      const query = {
        ...options.query,
        sort: state.sort,
        order: state.order,
        offset: state.offset,
        limit: LIMIT,
        search: state.search,
      };
      const told = await (options.load ? options.load(query) : context.get(options.path, query));
      if (mine === turn) show(told);
    } catch (error) {
      if (mine !== turn || isAbort(error)) return;
      if (!(error instanceof Problem)) throw error;
      rows.element.hidden = pages.element.hidden = true;
      fill(note, error.isForbidden ? notPermitted(options.noun, error.detail) : failed(error, load));
    } finally {
      rows.element.removeAttribute("aria-busy");
    }
  }

  /** @param {any} told */
  function show(told) {
    const found = told[options.key] ?? [];
    const total = told.total ?? found.length;
    const isEmpty = !total && !state.search;
    rows.element.hidden = pages.element.hidden = isEmpty;
    fill(
      note,
      isEmpty ? options.empty() : !total && h("p", { class: "dim" }, `No ${options.noun} match “${state.search}”.`),
    );
    rows.show(found);
    pages.show(state.offset, LIMIT, total, found.length);
    if (state.offset && !found.length && total)
      change({ offset: Math.max(0, Math.floor((total - 1) / LIMIT) * LIMIT) });
  }

  context.scope.every(REFRESH_MS, () => {
    if (!document.hidden && link.isUp && !rows.element.contains(document.activeElement)) load();
  });
  context.scope.listen(link, "back", load);
  context.scope.listen(link, "try", load);
  load();
  return { element: content, reload: load };
}

const MOST_GATHERED = 10_000;

/**
 * Load a list that the server only gives in pages, and search, sort and cut it here.
 * @param {import("../app.js").Context} context
 * @param {string} path
 * @param {string} key of the rows in an answer
 * @param {string} name the field that is searched, and the order that `name` means
 */
export function gathered(context, path, key, name) {
  return async (/** @type {any} */ query) => {
    /** @type {any[]} */
    const rows = [];
    let offset = 0;
    do {
      const told = await context.get(path, offset ? { offset } : {});
      rows.push(...told[key]);
      offset = told.next_offset ?? 0;
    } while (offset && rows.length < MOST_GATHERED);
    const wanted = (query.search ?? "").toLowerCase();
    const found = rows.filter((row) => row[name].toLowerCase().includes(wanted));
    const field = query.sort === "name" ? name : query.sort;
    const sign = query.order === "desc" ? -1 : 1;
    found.sort((a, b) => sign * (a[field] < b[field] ? -1 : a[field] > b[field] ? 1 : 0));
    return { [key]: found.slice(query.offset, query.offset + query.limit), total: found.length };
  };
}
