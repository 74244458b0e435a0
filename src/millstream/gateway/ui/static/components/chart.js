/**
 * A line chart of a few series over time, drawn as SVG; the newest values stand in its legend.  One scale for
 * all series, from zero.  Pointing at it shows the values of that moment.
 */
import { fill, h, setText, svg } from "../dom.js";
import { clock, short } from "../format.js";

const WIDTH = 640;
const HEIGHT = 160;
const LEFT = 46;
const BOTTOM = 18;
const TOP = 8;
const LINES = 3;
const LONGEST_GAP = 4; // times the usual distance of two points: a longer one is not bridged

/** @typedef {{time: number, values: (number|null)[]}} Point */

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
  const legend = makeLegend(names, form);
  const labels = h("div", { class: "labels", "aria-hidden": "true" });
  const waiting = h("p", { class: "waiting" }, "Collecting values…");
  const pointer = makePointer();
  const plot = h("div", { class: "plot" }, drawing, labels, pointer.element, waiting);
  const element = h("figure", { class: "figure" }, h("figcaption", {}, title, legend.element), plot);
  /** @type {Point[]} */
  let points = [];
  let axis = { start: 0, end: 1, top: 1 };
  /** @type {Point|null} */
  let pointed = null;

  const x = (/** @type {number} */ at) => LEFT + ((at - axis.start) / (axis.end - axis.start)) * (WIDTH - LEFT);
  const y = (/** @type {number} */ value) => TOP + (1 - value / axis.top) * (HEIGHT - TOP - BOTTOM);

  plot.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const box = plot.getBoundingClientRect();
    const at = axis.start + (((event.clientX - box.left) / box.width) * WIDTH - LEFT) * msForUnit(axis);
    pointed = nearest(points, at);
    point();
  });
  plot.addEventListener("pointerleave", () => {
    pointed = null;
    point();
  });

  function point() {
    const shown = pointed ?? points[points.length - 1];
    legend.show(shown?.values ?? []);
    pointer.show(pointed && { left: (x(pointed.time) / WIDTH) * 100, text: clock(new Date(pointed.time)) });
  }

  /**
   * @param {import("../live.js").Series} series
   * @param {number} [span] the time that is shown; without it, all of the series
   */
  function show(series, span) {
    const all = series.points;
    waiting.hidden = all.length > 1;
    if (!all.length) return;
    const end = all[all.length - 1].time;
    const start = span ? end - span : Math.min(all[0].time, end - spanMs);
    points = all[0].time >= start ? all : all.filter((each) => each.time >= start);
    const highest = Math.max(...points.flatMap((each) => each.values.map((value) => value ?? 0)), 0);
    axis = { start, end, top: niceTop(highest, base) };
    const runs = runsOf(points);
    fill(
      drawing,
      gridLines(y, axis.top),
      runs.length > 0 && svg("path", { d: areaOf(runs, x, y), class: "area" }),
      names.map((_, index) =>
        svg("path", {
          d: runs.map((run) => lineOf(run, index, x, y)).join(""),
          class: `line series-${index}`,
          "vector-effect": "non-scaling-stroke",
        }),
      ),
    );
    fill(
      labels,
      Array.from({ length: LINES + 1 }, (_, step) => {
        const value = (axis.top * step) / LINES;
        return placed(h("span", { class: "y" }, form(value)), 0, (y(value) / HEIGHT) * 100);
      }),
      placed(h("span", { class: "x" }, clock(new Date(start))), (LEFT / WIDTH) * 100, 100),
      placed(h("span", { class: "x last" }, clock(new Date(end))), 100, 100),
    );
    point();
  }

  return { element, show };
}

/** @param {{start: number, end: number}} axis @returns {number} milliseconds for one unit of the drawing */
function msForUnit(axis) {
  return (axis.end - axis.start) / (WIDTH - LEFT);
}

/** @param {Point[]} points @param {number} at @returns {Point|null} */
function nearest(points, at) {
  let best = null;
  for (const each of points)
    if (best === null || Math.abs(each.time - at) < Math.abs(best.time - at)) best = each;
  return best;
}

/** @param {string[]} names @param {(value: number) => string} form */
function makeLegend(names, form) {
  const values = names.map(() => h("b", {}, "–"));
  const element = h(
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
  return {
    element,
    /** @param {(number|null)[]} now */
    show(now) {
      values.forEach((place, index) => {
        const value = now[index];
        setText(place, value === null || value === undefined ? "–" : form(value));
      });
    },
  };
}

/** The line under the pointer, with its time. */
function makePointer() {
  const text = h("span", {});
  const element = h("div", { class: "pointer", "aria-hidden": "true", hidden: true }, text);
  return {
    element,
    /** @param {{left: number, text: string}|null} at */
    show(at) {
      element.hidden = !at;
      if (!at) return;
      element.style.left = `${at.left}%`;
      element.classList.toggle("left", at.left > 80);
      setText(text, at.text);
    },
  };
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
 * Points in runs without a gap: nothing is known about the time in which nobody looked.
 * @param {Point[]} points
 * @returns {Point[][]}
 */
function runsOf(points) {
  const distances = points.slice(1).map((each, index) => each.time - points[index].time);
  const usual = [...distances].sort((a, b) => a - b)[Math.floor(distances.length * 0.9)] ?? 0;
  /** @type {Point[][]} */
  const runs = [];
  points.forEach((each, index) => {
    if (index === 0 || distances[index - 1] > usual * LONGEST_GAP) runs.push([]);
    runs[runs.length - 1].push(each);
  });
  return runs;
}

/** @param {Point[]} run @param {number} index @param {(time: number) => number} x @param {(value: number) => number} y */
function lineOf(run, index, x, y) {
  let text = "";
  for (const each of run) {
    const value = each.values[index];
    if (value === null || value === undefined) continue;
    text += `${text ? "L" : "M"}${x(each.time).toFixed(1)} ${y(value).toFixed(1)}`;
  }
  return text;
}

/**
 * The surface below the first series.
 * @param {Point[][]} runs @param {(time: number) => number} x @param {(value: number) => number} y
 */
function areaOf(runs, x, y) {
  return runs
    .filter((run) => run.length > 1)
    .map((run) => {
      const ends = [run[0], run[run.length - 1]].map((each) => x(each.time).toFixed(1));
      return `${lineOf(run, 0, x, y)}L${ends[1]} ${y(0)}L${ends[0]} ${y(0)}Z`;
    })
    .join("");
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
