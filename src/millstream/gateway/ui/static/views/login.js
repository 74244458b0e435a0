/** Log in with NATS credentials. */
import { Problem } from "../api.js";
import { complaint } from "../components/states.js";
import { area, checkbox, field, input, select } from "../components/form.js";
import { fill, h } from "../dom.js";
import { base64Of, session } from "../session.js";

const REASONS = {
  needed: "This server wants to know who you are.",
  refused: "NATS does not accept these credentials any more.",
};

/** @param {import("../app.js").Context} context */
export default async function login(context) {
  context.setTitle("Log in");
  const kinds = makeKinds();
  const chooser = select(
    kinds.map((kind) => [kind.name, kind.label]),
    { value: "user" },
  );
  const place = h("div", { class: "fields" });
  const keep = checkbox("Keep them until this tab is closed");
  const trouble = h("div", {});
  const send = h("button", { type: "submit", class: "primary" }, "Log in");
  const present = () => /** @type {Kind} */ (kinds.find((kind) => kind.name === chooser.value));
  const draw = () => fill(place, present().fields);
  chooser.addEventListener("change", draw);
  draw();
  const form = h(
    "form",
    { on: { submit } },
    field("With", chooser),
    place,
    keep.element,
    trouble,
    h("div", { class: "actions" }, send),
  );

  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    send.disabled = true;
    fill(trouble);
    try {
      await session.login(await present().read(), keep.control.checked);
    } catch (error) {
      const text =
        error instanceof Problem && error.status === 401 ? new Error("NATS does not accept these credentials.") : error;
      fill(trouble, complaint(text));
    } finally {
      send.disabled = false;
    }
  }

  const reason = REASONS[/** @type {"needed"|"refused"} */ (context.query.reason)];
  return h(
    "section",
    { class: "card login" },
    h("h1", {}, "Log in"),
    h("p", { class: "dim" }, reason ?? "Your NATS credentials decide what you see and what you may change."),
    form,
    h("p", { class: "dim" }, "They go to this gateway with each call, and are kept in this page only."),
  );
}

/** @typedef {{name: string, label: string, fields: import("../dom.js").Child, read: () => Promise<string>|string}} Kind */

/** @returns {Kind[]} */
function makeKinds() {
  const user = input({ autocomplete: "username", required: true });
  const password = input({ type: "password", autocomplete: "current-password" });
  const token = input({ type: "password" });
  const seed = input({ type: "password", placeholder: "SU…" });
  const file = input({ type: "file", accept: ".creds,text/plain" });
  const text = area({ rows: 4, placeholder: "-----BEGIN NATS USER JWT-----" });
  return [
    {
      name: "user",
      label: "User and password",
      fields: [field("User", user, { wide: true }), field("Password", password, { wide: true })],
      read: () => `Basic ${base64Of(`${user.value}:${password.value}`)}`,
    },
    {
      name: "token",
      label: "Token",
      fields: field("Token", token, { wide: true }),
      read: () => `Bearer ${token.value.trim()}`,
    },
    {
      name: "nkey",
      label: "Nkey seed",
      fields: field("Seed", seed, {
        wide: true,
        hint: "It begins with SU. The gateway signs the server's challenge with it.",
      }),
      read: () => `Nkey ${seed.value.trim()}`,
    },
    {
      name: "creds",
      label: "Credentials file",
      fields: [field("File", file, { wide: true }), field("Or its content", text, { wide: true })],
      read: async () => `Creds ${base64Of(file.files?.[0] ? await file.files[0].text() : text.value)}`,
    },
    { name: "none", label: "Nothing: as the gateway itself", fields: null, read: () => "" },
  ];
}
