/** What stands where values would stand: nothing there yet, not permitted, failed, read-only. */
import { Problem, isAbort } from "../api.js";
import { fill, h } from "../dom.js";
import { here, href } from "../router.js";
import { session } from "../session.js";
import { icon } from "./icons.js";

/**
 * Says that there is nothing, and what to do next.
 * @param {string} text
 * @param {import("../dom.js").Child} next
 * @param {...import("../dom.js").Child} actions
 */
export function empty(text, next, ...actions) {
  return h(
    "div",
    { class: "state" },
    h("p", { class: "lead" }, text),
    next && h("p", { class: "dim" }, next),
    actions.length > 0 && h("p", { class: "actions" }, actions),
  );
}

/** @param {string} what a noun: "connections" */
export function notPermitted(what, detail = "") {
  const user = session.who?.user;
  return h(
    "div",
    { class: "state", data: { forbidden: "" } },
    icon("lock"),
    h("p", { class: "lead" }, `${user ? `User ${user}` : "This user"} may not see ${what}.`),
    h(
      "p",
      { class: "dim" },
      detail ||
        "NATS does not permit it. Log in with other credentials, or ask whoever runs the server for the permission.",
    ),
  );
}

/**
 * @param {Problem} problem
 * @param {() => void} [retry]
 * @param {boolean} [isPage] it is all that the page shows
 */
export function failed(problem, retry, isPage = false) {
  if (problem.isForbidden) return notPermitted("this", problem.detail);
  if (problem.status === 404 && isPage) return notThere(problem);
  const button = retry && h("button", { type: "button", on: { click: retry } }, "Try again");
  return h(
    "div",
    { class: "state", data: { failed: "" }, role: "alert" },
    icon("warn"),
    h(isPage ? "h1" : "p", { class: "lead" }, problem.status ? `${problem.title} (${problem.status})` : problem.title),
    h("p", { class: "dim" }, problem.detail || ""),
    button && h("p", { class: "actions" }, button),
  );
}

/** A page about something that does not exist. @param {Problem} problem */
function notThere(problem) {
  const { path } = here();
  const list = path.split("/")[1] ?? "";
  return h(
    "div",
    { class: "state", data: { failed: "" } },
    icon("info"),
    h("h1", { class: "lead" }, `${capital(problem.detail || "it does not exist").replace(/\.$/, "")}.`),
    h("p", { class: "dim" }, "It may have been deleted, have another name, or belong to another account."),
    h("p", { class: "actions" }, h("a", { class: "button", href: href(list ? [list] : []) }, "Look at the list")),
  );
}

/** @param {string} text */
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A problem in a line, where it happened. @param {any} error */
export function complaint(error) {
  const text =
    error instanceof Problem ? [error.title, error.detail].filter(Boolean).join(": ") : String(error?.message ?? error);
  return h("p", { class: "complaint", role: "alert" }, icon("warn"), h("span", {}, text));
}

export const READ_ONLY = "This gateway is read-only: it was started with --read-only.";

/**
 * A button that changes something; on a read-only gateway it is disabled and says why.
 * @param {string} label
 * @param {(event: Event) => void} action
 * @param {Object<string, any>} [props]
 */
export function changeButton(label, action, props = {}) {
  const locked = session.isReadOnly;
  return h(
    "button",
    {
      type: "button",
      ...props,
      ...(locked ? { "aria-disabled": "true", title: READ_ONLY } : {}),
      on: { click: (/** @type {Event} */ event) => (locked ? undefined : action(event)) },
    },
    locked && icon("lock"),
    label,
  );
}

/** A note on top of what cannot be used. */
export function readOnlyNote() {
  return session.isReadOnly && h("p", { class: "note" }, icon("lock"), h("span", {}, READ_ONLY));
}

/**
 * Fill `place` with what `work` returns; with what went wrong if it fails.
 * @param {Element} place
 * @param {string} what is loaded: "connections"
 * @param {() => Promise<import("../dom.js").Child>} work
 */
export async function into(place, what, work) {
  place.setAttribute("aria-busy", "true");
  try {
    fill(place, await work());
  } catch (error) {
    if (isAbort(error)) return;
    if (!(error instanceof Problem)) throw error;
    if (error.isForbidden) fill(place, notPermitted(what, error.detail));
    else
      fill(
        place,
        failed(error, () => into(place, what, work)),
      );
  } finally {
    place.removeAttribute("aria-busy");
  }
}
