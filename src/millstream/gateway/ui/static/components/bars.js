/** Bars for a few named numbers, drawn as SVG; the table beside it has the same numbers for who cannot see it. */
import { h, svg } from "../dom.js";
import { short } from "../format.js";

const WIDE = 900; // about the pixels that it gets, so that texts keep their size
const NARROW = 340;
const ROW = 22;
const LABEL = 0.3; // of the width
const LETTER = 7.5;
const VALUE = 60;

/**
 * @param {string} title
 * @param {{name: string, value: number}[]} bars values below zero go to the left of where the others begin
 */
export function barChart(title, bars) {
  const width = matchMedia("(max-width: 700px)").matches ? NARROW : WIDE;
  const label = width * LABEL;
  const values = bars.map((bar) => bar.value);
  const least = Math.min(...values, 0);
  const scale = (width - label - VALUE) / (Math.max(...values, 0) - least || 1);
  const zero = label - least * scale;
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${width} ${ROW * bars.length}`, class: "bars", role: "img", "aria-label": title },
    bars.map((bar, index) => {
      const length = Math.abs(bar.value) * scale;
      const start = bar.value < 0 ? zero - length : zero;
      const middle = ROW * index + ROW / 2;
      return [
        svg("text", { x: label - 8, y: middle, class: "name" }, cut(bar.name, Math.floor((label - 8) / LETTER))),
        svg("rect", { x: start, y: ROW * index + 3, width: length, height: ROW - 6, rx: 2 }),
        svg("text", { x: start + length + 6, y: middle, class: "amount" }, short(bar.value)),
      ];
    }),
  );
  return h("figure", { class: "barchart" }, drawing);
}

/**
 * @param {string} text
 * @param {number} most
 */
function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
