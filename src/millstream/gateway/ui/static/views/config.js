/** The configuration of a stream. */
import { pathOf } from "../api.js";
import { h } from "../dom.js";
import { configEditor } from "./config_editor.js";
import { streamFrame } from "./stream_frame.js";

/** @param {import("../app.js").Context} context */
export default async function config(context) {
  const name = context.params.stream;
  context.setTitle(`Configuration of ${name}`);
  const info = await context.get(`v2/streams/${pathOf(name)}`);
  const editor = await configEditor(context, `v2/streams/${pathOf(name)}/config`, `the configuration of ${name}`);
  return [
    streamFrame(name, "Configuration", { config: info.config }),
    h("section", { class: "card", "aria-label": "Configuration" }, editor),
  ];
}
