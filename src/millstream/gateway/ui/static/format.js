/** Numbers, sizes, durations and times as people read them. */

const NUMBER = new Intl.NumberFormat("en-US");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const NS = 1e9;

/** @param {number|null|undefined} value */
export function number(value) {
  return value === null || value === undefined ? "–" : NUMBER.format(value);
}

/** A number in at most five characters. @param {number|null|undefined} value */
export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size < 10_000) return size < 10 && !Number.isInteger(value) ? value.toFixed(1) : NUMBER.format(Math.round(value));
  for (const [limit, unit] of /** @type {[number, string][]} */ ([
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ])) {
    if (size >= limit) return `${(value / limit).toPrecision(3).replace(/\.?0+$/, "")}${unit}`;
  }
  return String(value);
}

/** @param {number|null|undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

/** @param {number|null|undefined} value a second */
export function rate(value) {
  return value === null || value === undefined ? "–" : `${short(value)}/s`;
}

/** @param {number|null|undefined} value a second */
export function byteRate(value) {
  return value === null || value === undefined ? "–" : `${bytes(value)}/s`;
}

/** A limit of JetStream: below one is none. @param {number|null|undefined} value @param {(n: number) => string} [form] */
export function limit(value, form = number) {
  return value === undefined || value === null || value <= 0 ? "no limit" : form(value);
}

/** @param {number|null|undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (size < 1) return `${(seconds * 1e3).toFixed(size < 0.01 ? 1 : 0)} ms`;
  if (size < 60) return `${Number(seconds.toFixed(size < 10 ? 1 : 0))} s`;
  const parts = [];
  let rest = Math.round(size);
  for (const [unit, name] of /** @type {[number, string][]} */ ([
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ])) {
    if (rest >= unit && parts.length < 2) {
      parts.push(`${Math.floor(rest / unit)} ${name}`);
      rest %= unit;
    } else if (parts.length) break;
  }
  return parts.join(" ");
}

/** @param {number|null|undefined} value */
export function nanoseconds(value) {
  return value === null || value === undefined ? "–" : duration(value / NS);
}

/** Whether a time of JetStream is one: year 1 stands for none. @param {string|null|undefined} text */
export function isTime(text) {
  return !!text && !text.startsWith("0001-");
}

/** @param {string|Date|null|undefined} value */
export function time(value) {
  if (!value || (typeof value === "string" && !isTime(value))) return "–";
  const date = value instanceof Date ? value : new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  const pad = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${clock(date)}`;
}

/** @param {Date} date */
export function clock(date) {
  const pad = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** @param {string|null|undefined} text */
export function ago(text) {
  if (!isTime(text)) return "never";
  const seconds = (Date.now() - new Date(/** @type {string} */ (text)).getTime()) / 1000;
  if (Number.isNaN(seconds)) return String(text);
  if (Math.abs(seconds) < 2) return "now";
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}
