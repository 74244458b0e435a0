/**
 * A line chart of a few series over time, drawn as SVG; with a table of its newest values for who cannot see
 * it.  One scale for all series, from zero.
 */
import { fill, h, setText, svg } from "../dom.js";
import { clock, short } from "../format.js";

const WIDTH = 640;
const HEIGHT = 160;
const LEFT = 46;
const BOTTOM = 18;
const TOP = 8;
const LINES = 3;

/**
 * @typedef {Object} ChartOptions
 * @property {string} title
 * @property {string[]} names of the series
 * @property {(value: number) => string} [form]
 * @property {number} [base] 1024 for bytes
 * @property {number} [spanMs] how much time the axis has at least
 */

/** @param {ChartOptions} options */
export function chart({ title, names, form = short, base = 10, spanMs = 60_000 }) {
  const drawing = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    class: "chart",
    role: "img",
    "aria-label": title,
    preserveAspectRatio: "none",
  });
  const values = names.map(() => h("b", {}, "–"));
  const legend = h(
    "ul",
    { class: "legend" },
    names.map((name, index) =>
      h(
        "li",
        { class: `series-${index}` },
        h("span", { class: "swatch", "aria-hidden": "true" }),
        name,
        " ",
        values[index],
      ),
    ),
  );
  const labels = h("div", { class: "labels", "aria-hidden": "true" });
  const element = h(
    "figure",
    { class: "figure" },
    h("figcaption", {}, title, legend),
    h("div", { class: "plot" }, drawing, labels),
  );
  const range = { top: 1 };

  /** @param {import("../live.js").Series} series */
  function show(series) {
    const points = series.points;
    if (!points.length) return;
    const end = points[points.length - 1].time;
    const start = Math.min(points[0].time, end - spanMs);
    range.top = niceTop(Math.max(...points.flatMap((point) => point.values.map((value) => value ?? 0)), 0), base);
    const x = (/** @type {number} */ time) => LEFT + ((time - start) / (end - start)) * (WIDTH - LEFT);
    const y = (/** @type {number} */ value) => TOP + (1 - value / range.top) * (HEIGHT - TOP - BOTTOM);
    fill(
      drawing,
      gridLines(y, range.top),
      names.map((_, index) =>
        svg("path", {
          d: pathOf(points, index, x, y),
          class: `line series-${index}`,
          "vector-effect": "non-scaling-stroke",
        }),
      ),
    );
    fill(
      labels,
      Array.from({ length: LINES + 1 }, (_, step) => {
        const value = (range.top * step) / LINES;
        return placed(h("span", { class: "y" }, form(value)), 0, (y(value) / HEIGHT) * 100);
      }),
      placed(h("span", { class: "x" }, clock(new Date(start))), (LEFT / WIDTH) * 100, 100),
      placed(h("span", { class: "x last" }, clock(new Date(end))), 100, 100),
    );
    names.forEach((_, index) => {
      const value = points[points.length - 1].values[index];
      setText(values[index], value === null || value === undefined ? "–" : form(value));
    });
  }

  return { element, show };
}

/** @param {HTMLElement} element @param {number} left @param {number} top both in percent */
function placed(element, left, top) {
  element.style.left = `${left}%`;
  element.style.top = `${top}%`;
  return element;
}

/** @param {(value: number) => number} y @param {number} top */
function gridLines(y, top) {
  return Array.from({ length: LINES + 1 }, (_, step) => {
    const at = y((top * step) / LINES);
    return svg("line", { x1: LEFT, x2: WIDTH, y1: at, y2: at, class: "grid", "vector-effect": "non-scaling-stroke" });
  });
}

/**
 * @param {{time: number, values: (number|null)[]}[]} points
 * @param {number} index
 * @param {(time: number) => number} x
 * @param {(value: number) => number} y
 */
function pathOf(points, index, x, y) {
  let text = "";
  let isDown = false;
  for (const point of points) {
    const value = point.values[index];
    if (value === null || value === undefined) {
      isDown = false;
      continue;
    }
    text += `${isDown ? "L" : "M"}${x(point.time).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = true;
  }
  return text;
}

/**
 * The end of the axis: not below `value`, and its thirds are round numbers.
 * @param {number} value
 * @param {number} base
 * @returns {number}
 */
function niceTop(value, base) {
  if (value <= 3) return 3;
  if (base === 1024) {
    const unit = 1024 ** Math.floor(Math.log(value) / Math.log(1024));
    return niceTop(value / unit, 10) * unit;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return (FACTORS.find((factor) => factor * power >= value) ?? 15) * power;
}

const FACTORS = [1.5, 3, 6, 9, 15];
