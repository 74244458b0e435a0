/** Small drawings; all of them only accompany a text or a label. */
import { svg } from "../dom.js";

/** @type {Object<string, string>} */
const PATHS = {
  mark: "M2 6q3-3 6 0t6 0M2 10q3-3 6 0t6 0M2 14q3-3 6 0t6 0",
  gauge: "M2.5 12a6 6 0 1 1 11 0M8 11l2.5-4",
  stream: "M2 4h12M2 8h12M2 12h8",
  letter: "M2 4h12v8.5H2zM2 4.5l6 4.5 6-4.5",
  key: "M10.5 2.5a3 3 0 1 1-2.4 4.8L3 12.5V14h2v-1.5h1.500V11",
  box: "M8 2l5.500 3v6L8 14l-5.500-3V5zM2.500 5L8 8l5.500-3M8 8v6",
  sheet: "M2 3h12v10H2zM2 6.500h12M6.500 6.500V13",
  send: "M2 8l12-5.500L9.500 14 7.500 9z",
  plug: "M5.500 2v4M10.500 2v4M4 6h8v2a4 4 0 0 1-8 0zM8 12v2.500",
  pipe: "M2 5h4a2 2 0 0 1 2 2v2a2 2 0 0 0 2 2h4M12 9l2 2-2 2",
  menu: "M2 4h12M2 8h12M2 12h12",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13 9.500A5.500 5.500 0 0 1 6.500 3a5.500 5.500 0 1 0 6.500 6.500z",
  person: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6M2.500 14a5.500 5.500 0 0 1 11 0",
  warn: "M8 2l6.500 12h-13zM8 6.500V10M8 12v.100",
  good: "M3 8.500l3.500 3.500L13 4.500",
  info: "M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13M8 7v4.500M8 4.500v.100",
  lock: "M4 7h8v7H4zM5.500 7V5a2.500 2.500 0 0 1 5 0v2",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  right: "M6 3l5 5-5 5",
};

/** @param {string} name */
export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 16 16", class: `icon icon-${name}`, "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] ?? PATHS.info }),
  );
}
