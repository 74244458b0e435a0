/** Why a consumer does or does not deliver: the verdict, and each cause with its evidence and advice. */
import { icon } from "../components/icons.js";
import { prose, sentence } from "../components/prose.js";
import { notPermitted } from "../components/states.js";
import { fill, h } from "../dom.js";
import { number, plural } from "../format.js";
import { href } from "../router.js";

const SIGNS = { delivering: "good", blocked: "warn", idle: "info", unknown: "info" };
const TITLES = {
  delivering: "It delivers",
  blocked: "Why it does not deliver",
  idle: "Why nothing is delivered",
  unknown: "Does it deliver?",
};

const UP_TO_DATE = new Set(["caught_up", "waiting_for_acks"]);

export function whyPanel() {
  const title = h("h2", {}, "Does it deliver?");
  const body = h("div", { class: "causes", "aria-live": "polite" }, h("p", { class: "dim" }, "Looking…"));
  let shown = "";
  return {
    element: h("section", { class: "card why", "aria-label": "Why it does or does not deliver" }, title, body),
    /** @param {any} told */
    show(told) {
      const key = JSON.stringify([told.verdict, told.summary, told.causes]);
      if (key === shown) return;
      shown = key;
      const verdict = /** @type {"idle"} */ (told.verdict);
      const causes = told.causes ?? [];
      const isCurrent = verdict === "idle" && UP_TO_DATE.has(causes[0]?.kind);
      fill(title, isCurrent ? "It is up to date" : (TITLES[verdict] ?? TITLES.unknown));
      fill(
        body,
        h("p", { class: `verdict ${isCurrent ? "current" : verdict}` }, icon(isCurrent ? "good" : (SIGNS[verdict] ?? "info")), h("span", {}, prose(told.summary))),
        causes.map((/** @type {any} */ cause) => causeShown(cause, told)),
      );
    },
    /** @param {import("../api.js").Problem} problem */
    fail(problem) {
      shown = "";
      if (problem.isForbidden) fill(body, notPermitted("this consumer", problem.detail));
      else fill(body, h("p", { class: "dim" }, problem.message));
    },
  };
}

/** @param {any} cause @param {any} told */
function causeShown(cause, { summary, stream }) {
  const evidence = Object.entries(cause.evidence ?? {}).filter(([, value]) => value !== "" && value !== null);
  return h(
    "div",
    { class: `cause ${cause.severity}`, data: { kind: cause.kind } },
    !summary.toLowerCase().includes(cause.text.toLowerCase()) && h("p", { class: "what" }, prose(sentence(cause.text))),
    cause.advice && h("p", { class: "advice" }, prose(cause.advice)),
    evidence.length > 0 &&
      h(
        "p",
        { class: "evidence" },
        evidence.map(([name, value]) => h("span", {}, `${name.replaceAll("_", " ")}: `, factShown(value, stream))),
      ),
  );
}

/** @param {any} value @param {string} stream @returns {import("../dom.js").Child} */
function factShown(value, stream) {
  if (Array.isArray(value) && value.every((each) => each?.seq)) {
    const at = (/** @type {any} */ each) => href(["streams", stream, "messages"], { seq: each.seq, open: each.seq });
    return value.map((each) => [
      h("a", { href: at(each) }, `#${number(each.seq)}`),
      each.deliveries ? ` (${plural(each.deliveries, "delivery", "deliveries")}) ` : " ",
    ]);
  }
  return h(
    "span",
    { class: "mono" },
    typeof value === "object"
      ? JSON.stringify(value)
      : typeof value === "number"
        ? number(value)
        : prose(String(value)),
  );
}
