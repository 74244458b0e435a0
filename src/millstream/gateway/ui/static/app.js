/** Starts the page: session, frame, and the view of the present address. */
import { Problem, get, isAbort, line } from "./api.js";
import { fill } from "./dom.js";
import { empty, failed } from "./components/states.js";
import { link } from "./live.js";
import { go, here, href, match } from "./router.js";
import { Scope } from "./scope.js";
import { session } from "./session.js";
import { makeShell } from "./shell.js";

/** @type {import("./router.js").Route[]} */
const ROUTES = [
  { pattern: "/", load: () => import("./views/overview.js") },
  { pattern: "/login", load: () => import("./views/login.js") },
  { pattern: "/streams", load: () => import("./views/streams.js") },
  { pattern: "/streams/:stream", load: () => import("./views/stream.js") },
  { pattern: "/streams/:stream/messages", load: () => import("./views/messages.js") },
  { pattern: "/streams/:stream/tail", load: () => import("./views/tail.js") },
  { pattern: "/streams/:stream/subjects", load: () => import("./views/subjects.js") },
  { pattern: "/streams/:stream/config", load: () => import("./views/config.js") },
  { pattern: "/streams/:stream/consumers", load: () => import("./views/consumers.js") },
  { pattern: "/streams/:stream/consumers/:consumer", load: () => import("./views/consumer.js") },
  { pattern: "/letters", load: () => import("./views/letters.js") },
  { pattern: "/letters/:stream", load: () => import("./views/letter_list.js") },
  { pattern: "/kv", load: () => import("./views/buckets.js") },
  { pattern: "/kv/:bucket", load: () => import("./views/bucket.js") },
  { pattern: "/objects", load: () => import("./views/object_buckets.js") },
  { pattern: "/objects/:bucket", load: () => import("./views/objects.js") },
  { pattern: "/sql", load: () => import("./views/sql.js") },
  { pattern: "/publish", load: () => import("./views/publish.js") },
  { pattern: "/connections", load: () => import("./views/connections.js") },
  { pattern: "/pipelines", load: () => import("./views/pipelines.js") },
];

/**
 * What a view gets: `params` and `query` of its address, a `scope` that ends when it is left, and the API.
 * @typedef {Object} Context
 * @property {Object<string, string>} params
 * @property {Object<string, string>} query
 * @property {Scope} scope
 * @property {(path: string, query?: Object<string, any>) => Promise<any>} get ends with the view
 * @property {(title: string) => void} setTitle
 * @property {(text: string) => void} announce for screen readers
 * @property {() => void} reload
 */

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
const shell = makeShell(app, { onLogout: logout });
let scope = new Scope();
let shown = 0;
let wanted = ""; // where to go after login

/** @param {string} title */
function setTitle(title) {
  document.title = title ? `${title} · Millstream` : "Millstream";
}

function logout() {
  session.forget();
  wanted = "";
  go(href(["login"]));
}

/** Show the view of the present address; `isFirst` leaves the focus where the browser put it. */
async function show(isFirst = false) {
  const turn = (shown += 1);
  scope.end();
  scope = new Scope();
  const { path, query } = here();
  const found = match(ROUTES, path);
  shell.place(path);
  if (!found) {
    setTitle("Not found");
    fill(shell.main, empty("There is nothing at this address.", "The menu leads to everything there is."));
    shell.main.dataset.at = path;
    return;
  }
  const mine = scope;
  /** @type {Context} */
  const context = {
    params: found.params,
    query,
    scope: mine,
    get: (where, given) => get(where, given, mine.signal),
    setTitle,
    announce: shell.announce,
    reload: () => show(),
  };
  shell.main.setAttribute("aria-busy", "true");
  let content;
  try {
    if (!session.who && found.route.pattern !== "/login") await session.load();
    const view = await found.route.load();
    content = await view.default(context);
  } catch (error) {
    if (turn !== shown || isAbort(error)) return;
    content = failure(error);
  }
  if (turn !== shown || !content) return;
  fill(shell.main, content);
  shell.main.removeAttribute("aria-busy");
  shell.main.dataset.at = path;
  if (!isFirst) {
    window.scrollTo(0, 0);
    const heading = shell.main.querySelector("h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
  }
}

/** @param {any} error */
function failure(error) {
  if (error instanceof Problem && error.status === 401) {
    askWhoItIs();
    return null;
  }
  if (error instanceof Problem) return failed(error, () => show(), true);
  if (error instanceof TypeError && /module/i.test(error.message)) {
    return failed(
      new Problem(0, "Not loaded", "A part of this page could not be loaded. The gateway may have been updated."),
      () => location.reload(),
      true,
    );
  }
  console.warn(error);
  return failed(new Problem(0, "Not shown", `The page failed: ${error}`), () => show(), true);
}

/** Show the login, and come back here afterwards. */
function askWhoItIs() {
  if (here().path === "/login") return;
  wanted = location.hash;
  go(href(["login"], { reason: session.hasCredentials ? "refused" : "needed" }));
}

line.addEventListener("refused", askWhoItIs);
link.addEventListener("back", () => {
  if (app.querySelector("[data-failed]")) show();
});
link.addEventListener("try", () => {
  if (app.querySelector("[data-failed]")) show();
});
session.addEventListener("change", () => {
  if (here().path === "/login" && session.who) go(wanted || "#/");
});
window.addEventListener("hashchange", () => show());
show(true);
