/** The forms in which a body can be shown, and the one that suits it best. */
import { toBase64, toHex, toText } from "./bytes.js";
import { decodeCbor } from "./cbor.js";
import { NotDecodable } from "./cursor.js";
import { prettyJson } from "./json_text.js";
import { decodeMsgpack } from "./msgpack.js";

const LONGEST = 256 * 1024; // characters that are put on the page

/** @type {[string, string][]} */
export const FORMS = [
  ["auto", "Automatic"],
  ["json", "JSON"],
  ["text", "Text"],
  ["hex", "Hex"],
  ["base64", "Base64"],
  ["msgpack", "MessagePack"],
  ["cbor", "CBOR"],
];

/**
 * @param {Uint8Array} bytes
 * @param {string} form
 * @returns {{form: string, text: string, note: string}} `note` says what could not be done
 */
export function show(bytes, form) {
  const chosen = form === "auto" ? guess(bytes) : form;
  const [text, note] = write(bytes, chosen);
  const cut = text.length > LONGEST;
  return {
    form: chosen,
    text: cut ? `${text.slice(0, LONGEST)}…` : text,
    note: cut ? "Only the beginning is shown." : note,
  };
}

/** @param {Uint8Array} bytes */
function guess(bytes) {
  const text = toText(bytes);
  if (text !== null)
    return bytes.length < 4 * LONGEST && prettyJson(text) !== null && /^\s*[[{]/.test(text) ? "json" : "text";
  for (const form of ["msgpack", "cbor"]) if (bytes.length > 1 && write(bytes, form)[1] === "") return form;
  return "hex";
}

/** @param {Uint8Array} bytes @param {string} form @returns {[string, string]} */
function write(bytes, form) {
  switch (form) {
    case "json": {
      const pretty = prettyJson(toText(bytes));
      return pretty === null
        ? [new TextDecoder().decode(bytes), "This is not JSON; it is shown as text."]
        : [pretty, ""];
    }
    case "hex":
      return [toHex(bytes), ""];
    case "base64":
      return [toBase64(bytes), ""];
    case "msgpack":
    case "cbor":
      try {
        return [(form === "cbor" ? decodeCbor : decodeMsgpack)(bytes), ""];
      } catch (error) {
        if (!(error instanceof NotDecodable)) throw error;
        return [
          toHex(bytes),
          `This is not ${form === "cbor" ? "CBOR" : "MessagePack"}: ${error.message}. It is shown as hex.`,
        ];
      }
    default:
      return [
        new TextDecoder().decode(bytes),
        toText(bytes) === null ? "Bytes that are not UTF-8 are shown as \uFFFD." : "",
      ];
  }
}
