/** What all pages of a stream have on top. */
import { heading, tabs, tag } from "../components/page.js";
import { href } from "../router.js";

/**
 * @param {string} stream
 * @param {string} current name of the tab
 * @param {{config?: any, actions?: import("../dom.js").Child}} [more]
 */
export function streamFrame(stream, current, { config, actions } = {}) {
  const at = (/** @type {string[]} */ ...rest) => href(["streams", stream, ...rest]);
  return [
    heading(stream, {
      path: [["Streams", href(["streams"])]],
      tags: config && [
        tag(config.retention ?? "limits"),
        config.sealed && tag("sealed", "warn"),
        config.mirror && tag("mirror", "accent"),
      ],
      actions,
    }),
    tabs(
      "Parts of the stream",
      [
        ["State", at()],
        ["Messages", at("messages")],
        ["Live tail", at("tail")],
        ["Subjects", at("subjects")],
        ["Consumers", at("consumers")],
        ["Configuration", at("config")],
      ],
      current,
    ),
  ];
}
