/** The frame around every view: navigation, who is logged in, and whether what is shown is fresh. */
import { fill, h, setText } from "./dom.js";
import { clock } from "./format.js";
import { icon } from "./components/icons.js";
import { link } from "./live.js";
import { href } from "./router.js";
import { serverName, session } from "./session.js";
import { theme } from "./theme.js";

const PLACES = [
  { at: "", name: "Overview", sign: "gauge" },
  { at: "streams", name: "Streams", sign: "stream" },
  { at: "letters", name: "Dead letters", sign: "letter" },
  { at: "kv", name: "Key-value", sign: "key" },
  { at: "objects", name: "Objects", sign: "box" },
  { at: "sql", name: "SQL", sign: "sheet" },
  { at: "publish", name: "Publish", sign: "send" },
  { at: "connections", name: "Connections", sign: "plug" },
  { at: "pipelines", name: "Pipelines", sign: "pipe" },
];

/**
 * @param {HTMLElement} root
 * @param {{onLogout: () => void}} actions
 * @returns {{main: HTMLElement, place: (path: string) => void, announce: (text: string) => void}}
 */
export function makeShell(root, { onLogout }) {
  const main = h("main", { id: "main", tabindex: "-1" });
  const links = PLACES.map((place) =>
    h(
      "a",
      { href: place.at ? href([place.at]) : "#/", data: { at: place.at } },
      icon(place.sign),
      h("span", {}, place.name),
    ),
  );
  const list = h(
    "ul",
    { id: "places" },
    links.map((each) => h("li", {}, each)),
  );
  const toggle = h(
    "button",
    { class: "menu quiet", type: "button", "aria-expanded": "false", "aria-controls": "places", "aria-label": "Menu" },
    icon("menu"),
  );
  const nav = h("nav", { "aria-label": "Main" }, list);
  const open = (/** @type {boolean} */ is) => {
    nav.classList.toggle("open", is);
    toggle.setAttribute("aria-expanded", String(is));
  };
  toggle.addEventListener("click", () => open(!nav.classList.contains("open")));
  const skip = h("a", { class: "skip", href: "#main" }, "Skip to content");
  skip.addEventListener("click", (/** @type {Event} */ event) => {
    event.preventDefault(); // the part behind # is the address of the view
    main.focus();
  });
  const live = h("div", { class: "sr", "aria-live": "polite" });
  const header = h(
    "header",
    {},
    toggle,
    h(
      "a",
      { class: "brand", href: "#/", "aria-label": "Millstream, overview" },
      icon("mark"),
      h("span", {}, "Millstream"),
    ),
    whoShown(),
    themeSwitch(),
    logoutButton(onLogout),
  );
  fill(
    root,
    skip,
    header,
    nav,
    h("div", { class: "body" }, banner(), main),
    live,
    h("div", { id: "toasts", role: "status", "aria-live": "polite" }),
  );
  link.addEventListener("change", () => main.classList.toggle("stale", !link.isUp));
  return {
    main,
    place(path) {
      const first = path.split("/")[1] ?? "";
      for (const each of links) {
        if (each.dataset.at === first) each.setAttribute("aria-current", "page");
        else each.removeAttribute("aria-current");
      }
      open(false);
    },
    announce: (text) => setText(live, text),
  };
}

function whoShown() {
  const place = h("div", { class: "who" });
  const show = () => {
    const who = session.who;
    if (!who) return fill(place);
    const server = who.server;
    return fill(
      place,
      h(
        "span",
        { class: "server", title: `${server.name}, version ${server.version}` },
        server.cluster || serverName(server),
      ),
      h(
        "span",
        { class: "dim account", title: `Account ${who.account}` },
        [who.account === "$G" ? "" : who.account, who.user].filter(Boolean).join(" · "),
      ),
      who.is_system && h("span", { class: "tag" }, "system"),
      who.read_only &&
        h(
          "span",
          { class: "tag warn", title: "This gateway was started with --read-only: it changes nothing." },
          "read-only",
        ),
    );
  };
  session.addEventListener("change", show);
  show();
  return place;
}

function themeSwitch() {
  const button = h("button", { class: "quiet", type: "button" });
  const show = () => {
    const next = theme.shown === "dark" ? "light" : "dark";
    fill(button, icon(next === "dark" ? "moon" : "sun"));
    button.setAttribute("aria-label", `Use the ${next} theme`);
    button.title = `Use the ${next} theme`;
  };
  button.addEventListener("click", () => theme.toggle());
  theme.addEventListener("change", show);
  show();
  return button;
}

/** @param {() => void} onLogout */
function logoutButton(onLogout) {
  const button = h(
    "button",
    { class: "quiet", type: "button", title: "Use other credentials", "aria-label": "Use other credentials" },
    icon("person"),
  );
  button.addEventListener("click", onLogout);
  return button;
}

/** Says that values are old, since when, and when the next try is. */
function banner() {
  const text = h("span", {});
  const next = h("span", { class: "dim" });
  const retry = h("button", { type: "button" }, "Try now");
  retry.addEventListener("click", () => link.tryNow());
  const bar = h("div", { class: "banner", role: "status", hidden: true }, icon("warn"), text, next, retry);
  let timer = /** @type {any} */ (0);
  const tick = () => {
    const seconds = Math.ceil((link.retryAt - Date.now()) / 1000);
    setText(next, seconds > 0 ? `Next try in ${seconds} s.` : "");
  };
  link.addEventListener("change", () => {
    bar.hidden = link.isUp;
    clearInterval(timer);
    if (link.isUp || !link.lostSince) return;
    setText(text, `Not connected since ${clock(link.lostSince)}. ${link.reason} What you see is from before.`);
    tick();
    timer = setInterval(tick, 1000);
  });
  return bar;
}
