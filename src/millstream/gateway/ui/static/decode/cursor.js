/**
 * Reads binary values with bounds: what a stranger sends must not hang or fill the page.  Values become text
 * at once, written like JSON with the types that JSON lacks: `h'0a0b'` for bytes, big numbers in full.
 */

const MOST_VALUES = 20_000;
const DEEPEST = 64;
const LONGEST_TEXT = 256 * 1024;

export class NotDecodable extends Error {}

export class Cursor {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
    this.values = 0;
    this.depth = 0;
  }

  get left() {
    return this.bytes.length - this.at;
  }

  /** Count a value; raises NotDecodable beyond the bounds. */
  count() {
    this.values += 1;
    if (this.values > MOST_VALUES) throw new NotDecodable("too many values");
  }

  /** @param {number|bigint} size @returns {Uint8Array} */
  take(size) {
    const length = Number(size);
    if (length > this.left) throw new NotDecodable("it ends too early");
    const part = this.bytes.subarray(this.at, this.at + length);
    this.at += length;
    return part;
  }

  /** @param {"Uint8"|"Uint16"|"Uint32"|"Int8"|"Int16"|"Int32"|"Float32"|"Float64"} kind */
  number(kind) {
    const size = Number(kind.replace(/\D+/, "")) / 8;
    this.take(size);
    return this.view[`get${kind}`](this.at - size);
  }

  /** @param {boolean} isSigned */
  big(isSigned) {
    this.take(8);
    return isSigned ? this.view.getBigInt64(this.at - 8) : this.view.getBigUint64(this.at - 8);
  }

  /** @param {number|bigint} size */
  text(size) {
    return quoted(this.take(size));
  }

  /** @param {number|bigint} size */
  raw(size) {
    return hexOf(this.take(size));
  }

  /**
   * A list or map of `count` entries.
   * @param {number|bigint} count
   * @param {string} brackets
   * @param {() => string} entry
   */
  group(count, brackets, entry) {
    if (Number(count) > this.left) throw new NotDecodable("it ends too early");
    return this.nested(brackets, () => Array.from({ length: Number(count) }, entry));
  }

  /** @param {string} brackets @param {() => string[]} entries */
  nested(brackets, entries) {
    this.depth += 1;
    if (this.depth > DEEPEST) throw new NotDecodable("it is nested too deeply");
    const parts = entries();
    this.depth -= 1;
    if (!parts.length) return brackets;
    const space = "  ".repeat(this.depth);
    return `${brackets[0]}\n${parts.map((part) => `${space}  ${part}`).join(",\n")}\n${space}${brackets[1]}`;
  }
}

/** @param {Uint8Array} bytes */
export function quoted(bytes) {
  const cut = bytes.subarray(0, LONGEST_TEXT);
  return JSON.stringify(new TextDecoder().decode(cut)) + (cut.length < bytes.length ? "…" : "");
}

/** @param {Uint8Array} bytes */
export function hexOf(bytes) {
  const cut = bytes.subarray(0, 4096);
  return `h'${[...cut].map((byte) => byte.toString(16).padStart(2, "0")).join("")}${cut.length < bytes.length ? "…" : ""}'`;
}

/** @param {number} value */
export function floating(value) {
  return Number.isFinite(value) && Number.isInteger(value) ? value.toFixed(1) : String(value);
}
