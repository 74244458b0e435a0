/**
 * JSON as it was written, with indents: numbers keep all their digits, which JSON.parse would round, and keys
 * their order.
 */

/**
 * @param {string} text valid JSON
 * @returns {string}
 */
export function indent(text) {
  let depth = 0;
  let out = "";
  const fresh = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      const end = endOfString(text, at);
      out += text.slice(at, end);
      at = end - 1;
    } else if (char === "{" || char === "[") {
      const close = nextVisible(text, at + 1);
      if (text[close] === "}" || text[close] === "]") {
        out += char + text[close];
        at = close;
      } else {
        depth += 1;
        out += char + fresh();
      }
    } else if (char === "}" || char === "]") {
      depth -= 1;
      out += fresh() + char;
    } else if (char === ",") {
      out += char + fresh();
    } else if (char === ":") {
      out += ": ";
    } else if (!/\s/.test(char)) {
      out += char;
    }
  }
  return out;
}

/** @param {string} text @param {number} at of its first quote */
function endOfString(text, at) {
  for (let place = at + 1; place < text.length; place += 1) {
    if (text[place] === "\\") place += 1;
    else if (text[place] === '"') return place + 1;
  }
  return text.length;
}

/** @param {string} text @param {number} at */
function nextVisible(text, at) {
  while (at < text.length && /\s/.test(text[at])) at += 1;
  return at;
}

/** @param {string|null} text @returns {string|null} indented, or null if it is not JSON */
export function prettyJson(text) {
  if (text === null || !/^\s*[[{"0-9tfn-]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return indent(text);
}
