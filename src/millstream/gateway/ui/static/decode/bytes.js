/** Bodies of messages as bytes, and bytes as text, base64 and hexadecimal. */

/** @param {{data?: string, base64?: string, json?: any}} message in the shape of the API */
export function bodyOf(message) {
  if (message.base64 !== undefined) return fromBase64(message.base64);
  if (message.data !== undefined) return new TextEncoder().encode(message.data);
  if (message.json !== undefined) return new TextEncoder().encode(JSON.stringify(message.json));
  return new Uint8Array();
}

/** @param {string} text @returns {Uint8Array} raises Error if it is not base64 */
export function fromBase64(text) {
  let binary;
  try {
    binary = atob(text.replace(/\s+/g, ""));
  } catch {
    throw new Error("This is not base64.");
  }
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

/** @param {Uint8Array} bytes */
export function toBase64(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}

/** @param {Uint8Array} bytes @returns {string|null} null if they are not UTF-8 */
export function toText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/**
 * A dump as hexdump -C writes it.
 * @param {Uint8Array} bytes
 * @param {number} most
 */
export function toHex(bytes, most = 16_384) {
  const lines = [];
  const end = Math.min(bytes.length, most);
  for (let at = 0; at < end; at += 16) {
    const row = bytes.subarray(at, Math.min(at + 16, end));
    const digits = [...row].map((byte) => byte.toString(16).padStart(2, "0"));
    const hex = `${digits.slice(0, 8).join(" ").padEnd(23)}  ${digits.slice(8).join(" ").padEnd(23)}`;
    const text = [...row].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex}  ${text}`);
  }
  if (end < bytes.length) lines.push(`… ${bytes.length - end} more bytes`);
  return lines.join("\n");
}
