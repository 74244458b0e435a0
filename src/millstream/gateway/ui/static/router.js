/**
 * Addresses of views: everything behind `#`, as a path and a query.  They can be shared, they need no help of
 * the server, and no name in them is sent anywhere.
 */

/**
 * @typedef {Object} Route
 * @property {string} pattern e.g. `/streams/:stream/messages`
 * @property {() => Promise<any>} load a module whose default is a view
 */

/** @typedef {{path: string, query: Object<string, string>}} Place */

/** @returns {Place} where the browser is */
export function here() {
  const [path, query] = split(location.hash.slice(1));
  return { path: path || "/", query: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {string} text @returns {[string, string]} */
function split(text) {
  const mark = text.indexOf("?");
  return mark < 0 ? [text, ""] : [text.slice(0, mark), text.slice(mark + 1)];
}

/**
 * The address of a view.
 * @param {(string|number)[]} segments
 * @param {Object<string, any>} [query]
 */
export function href(segments, query = {}) {
  const path = segments.map((segment) => encodeURIComponent(String(segment))).join("/");
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** @param {string} address of `href` */
export function go(address) {
  location.hash = address;
}

/**
 * Change the query of the present view, without leaving it.
 * @param {Object<string, any>} query
 */
export function setQuery(query) {
  const segments = here().path.split("/").slice(1).map(decode);
  history.replaceState(null, "", href(segments, query));
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * @param {Route[]} routes
 * @param {string} path
 * @returns {{route: Route, params: Object<string, string>}|null}
 */
export function match(routes, path) {
  const segments = path.replace(/\/+$/, "").split("/");
  for (const route of routes) {
    const names = route.pattern.replace(/\/+$/, "").split("/");
    if (names.length !== segments.length) continue;
    /** @type {Object<string, string>} */
    const params = {};
    const fits = names.every((name, index) => {
      if (!name.startsWith(":")) return name === segments[index];
      params[name.slice(1)] = decode(segments[index]);
      return segments[index] !== "";
    });
    if (fits) return { route, params };
  }
  return null;
}
