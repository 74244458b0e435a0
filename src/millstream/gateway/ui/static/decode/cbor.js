/** CBOR (RFC 8949) as text, in its diagnostic notation. */
import { Cursor, NotDecodable, floating } from "./cursor.js";

const BREAK = 0xff;
const OPEN = 31;

/** @param {Uint8Array} bytes @returns {string} raises NotDecodable */
export function decodeCbor(bytes) {
  const cursor = new Cursor(bytes);
  const text = value(cursor);
  if (cursor.left) throw new NotDecodable("there is more behind it");
  return text;
}

/** @param {Cursor} cursor @returns {string} */
function value(cursor) {
  cursor.count();
  const head = cursor.number("Uint8");
  const kind = head >> 5;
  const info = head & 31;
  if (kind === 7) return simple(cursor, info);
  const size = info === OPEN ? null : argument(cursor, info);
  switch (kind) {
    case 0:
      return String(definite(size));
    case 1:
      return String(-1n - definite(size));
    case 2:
      return size === null ? chunks(cursor, 2) : cursor.raw(size);
    case 3:
      return size === null ? chunks(cursor, 3) : cursor.text(size);
    case 4:
      return size === null ? until(cursor, "[]", () => value(cursor)) : cursor.group(size, "[]", () => value(cursor));
    case 5: {
      const entry = () => `${value(cursor)}: ${value(cursor)}`;
      return size === null ? until(cursor, "{}", entry) : cursor.group(size, "{}", entry);
    }
    default: {
      const number = definite(size);
      return cursor
        .nested("()", () => [value(cursor)])
        .replace(/^\(\s*/, `${number}(`)
        .replace(/\s*\)$/, ")");
    }
  }
}

/** @param {bigint|null} size */
function definite(size) {
  if (size === null) throw new NotDecodable("a number without an end");
  return size;
}

/** @param {Cursor} cursor @param {number} info @returns {bigint} */
function argument(cursor, info) {
  if (info < 24) return BigInt(info);
  if (info === 24) return BigInt(cursor.number("Uint8"));
  if (info === 25) return BigInt(cursor.number("Uint16"));
  if (info === 26) return BigInt(cursor.number("Uint32"));
  if (info === 27) return cursor.big(false);
  throw new NotDecodable("a reserved length");
}

/** @param {Cursor} cursor @param {number} info */
function simple(cursor, info) {
  switch (info) {
    case 20:
      return "false";
    case 21:
      return "true";
    case 22:
      return "null";
    case 23:
      return "undefined";
    case 25:
      return floating(half(cursor.number("Uint16")));
    case 26:
      return floating(cursor.number("Float32"));
    case 27:
      return floating(cursor.number("Float64"));
    case OPEN:
      throw new NotDecodable("an end without a beginning");
    default:
      return `simple(${argument(cursor, info)})`;
  }
}

/** @param {number} bits */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
}

/** @param {Cursor} cursor */
function isBreak(cursor) {
  if (!cursor.left) throw new NotDecodable("it ends too early");
  if (cursor.bytes[cursor.at] !== BREAK) return false;
  cursor.at += 1;
  return true;
}

/** @param {Cursor} cursor @param {string} brackets @param {() => string} entry */
function until(cursor, brackets, entry) {
  return cursor.nested(brackets, () => {
    const parts = [];
    while (!isBreak(cursor)) parts.push(entry());
    return parts;
  });
}

/** @param {Cursor} cursor @param {number} kind of the parts */
function chunks(cursor, kind) {
  const parts = [];
  while (!isBreak(cursor)) {
    cursor.count();
    const head = cursor.number("Uint8");
    if (head >> 5 !== kind) throw new NotDecodable("a part of another type");
    const size = argument(cursor, head & 31);
    parts.push(kind === 2 ? cursor.raw(size) : cursor.text(size));
  }
  return `(_ ${parts.join(", ")})`;
}
