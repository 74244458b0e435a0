/** Subjects of a stream as a tree with counts. */
import { pathOf } from "../api.js";
import { tree } from "../components/tree.js";
import { empty } from "../components/states.js";
import { h } from "../dom.js";
import { number, plural } from "../format.js";
import { href } from "../router.js";
import { streamFrame } from "./stream_frame.js";

const LIMIT = 200;

/** @param {import("../app.js").Context} context */
export default async function subjects(context) {
  const name = context.params.stream;
  const path = `v2/streams/${pathOf(name)}`;
  context.setTitle(`Subjects of ${name}`);
  const info = await context.get(path);

  /** @param {string} prefix */
  async function load(prefix) {
    const told = await context.get(`${path}/subjects`, { prefix, depth: 1, limit: LIMIT });
    const branches = told.subjects.map((/** @type {any} */ each) => ({
      name: each.token,
      value: each.subject,
      children: each.children,
      more: [
        h("span", {}, number(each.messages)),
        h(
          "a",
          {
            href: href(["streams", name, "messages"], {
              subject: each.children ? `${each.subject}.>` : each.subject,
              at: "first",
            }),
            "aria-label": `Messages of ${each.subject}`,
          },
          "Messages",
        ),
      ],
    }));
    return { branches, rest: (told.total ?? branches.length) - branches.length, isPartial: told.complete === false };
  }

  const count = info.state.num_subjects ?? 0;
  return [
    streamFrame(name, "Subjects", { config: info.config }),
    h(
      "section",
      { class: "card", "aria-label": "Subjects" },
      info.state.messages
        ? [
            h(
              "p",
              { class: "dim" },
              `${plural(count, "subject")} with messages. Open a token to see what is below it.`,
            ),
            tree({ what: "subjects", load, root: "" }),
          ]
        : empty(
            "No subject has messages.",
            `The stream takes ${(info.config.subjects ?? []).join(", ") || "what its origin has"}.`,
          ),
    ),
  ];
}
