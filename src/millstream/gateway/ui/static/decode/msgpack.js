/** MessagePack as text. */
import { Cursor, NotDecodable, floating } from "./cursor.js";

/** @param {Uint8Array} bytes @returns {string} raises NotDecodable */
export function decodeMsgpack(bytes) {
  const cursor = new Cursor(bytes);
  const text = value(cursor);
  if (cursor.left) throw new NotDecodable("there is more behind it");
  return text;
}

/** @param {Cursor} cursor @returns {string} */
function value(cursor) {
  cursor.count();
  const head = cursor.number("Uint8");
  if (head <= 0x7f) return String(head);
  if (head >= 0xe0) return String(head - 256);
  if (head <= 0x8f) return map(cursor, head & 15);
  if (head <= 0x9f) return list(cursor, head & 15);
  if (head <= 0xbf) return cursor.text(head & 31);
  const read = TYPES[head];
  if (!read) throw new NotDecodable("an unknown type");
  return read(cursor);
}

/** @param {Cursor} cursor @param {number} count */
const list = (cursor, count) => cursor.group(count, "[]", () => value(cursor));
/** @param {Cursor} cursor @param {number} count */
const map = (cursor, count) => cursor.group(count, "{}", () => `${value(cursor)}: ${value(cursor)}`);

/** @param {Cursor} cursor @param {number} size */
function extension(cursor, size) {
  const kind = cursor.number("Int8");
  if (kind === -1 && (size === 4 || size === 8)) {
    const seconds = size === 4 ? BigInt(cursor.number("Uint32")) : cursor.big(false) & 0x3ffffffffn;
    return timeText(Number(seconds));
  }
  return `ext(${kind}, ${cursor.raw(size)})`;
}

/** @param {number} seconds */
function timeText(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? `time(${seconds})` : `time("${date.toISOString()}")`;
}

/** @type {Object<number, (cursor: Cursor) => string>} */
const TYPES = {
  0xc0: () => "null",
  0xc2: () => "false",
  0xc3: () => "true",
  0xc4: (c) => c.raw(c.number("Uint8")),
  0xc5: (c) => c.raw(c.number("Uint16")),
  0xc6: (c) => c.raw(c.number("Uint32")),
  0xc7: (c) => extension(c, c.number("Uint8")),
  0xc8: (c) => extension(c, c.number("Uint16")),
  0xc9: (c) => extension(c, c.number("Uint32")),
  0xca: (c) => floating(c.number("Float32")),
  0xcb: (c) => floating(c.number("Float64")),
  0xcc: (c) => String(c.number("Uint8")),
  0xcd: (c) => String(c.number("Uint16")),
  0xce: (c) => String(c.number("Uint32")),
  0xcf: (c) => String(c.big(false)),
  0xd0: (c) => String(c.number("Int8")),
  0xd1: (c) => String(c.number("Int16")),
  0xd2: (c) => String(c.number("Int32")),
  0xd3: (c) => String(c.big(true)),
  0xd4: (c) => extension(c, 1),
  0xd5: (c) => extension(c, 2),
  0xd6: (c) => extension(c, 4),
  0xd7: (c) => extension(c, 8),
  0xd8: (c) => extension(c, 16),
  0xd9: (c) => c.text(c.number("Uint8")),
  0xda: (c) => c.text(c.number("Uint16")),
  0xdb: (c) => c.text(c.number("Uint32")),
  0xdc: (c) => list(c, c.number("Uint16")),
  0xdd: (c) => list(c, c.number("Uint32")),
  0xde: (c) => map(c, c.number("Uint16")),
  0xdf: (c) => map(c, c.number("Uint32")),
};
