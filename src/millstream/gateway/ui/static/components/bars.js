/** Bars for a few named numbers, drawn as SVG; the table beside it has the same numbers for who cannot see it. */
import { h, svg } from "../dom.js";
import { short } from "../format.js";

const WIDTH = 640;
const ROW = 22;
const LABEL = 200;
const VALUE = 70;

/**
 * @param {string} title
 * @param {{name: string, value: number}[]} bars values below zero have no bar
 */
export function barChart(title, bars) {
  const most = Math.max(...bars.map((bar) => bar.value), 0) || 1;
  const room = WIDTH - LABEL - VALUE;
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${ROW * bars.length}`, class: "bars", role: "img", "aria-label": title },
    bars.map((bar, index) => {
      const length = Math.max(0, (bar.value / most) * room);
      const middle = ROW * index + ROW / 2;
      return [
        svg("text", { x: LABEL - 8, y: middle, class: "name" }, cut(bar.name)),
        svg("rect", { x: LABEL, y: ROW * index + 3, width: length, height: ROW - 6, rx: 2 }),
        svg("text", { x: LABEL + length + 6, y: middle, class: "amount" }, short(bar.value)),
      ];
    }),
  );
  return h("figure", { class: "barchart" }, drawing);
}

/** @param {string} text */
function cut(text) {
  return text.length > 28 ? `${text.slice(0, 27)}…` : text;
}
