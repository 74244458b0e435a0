/**
 * Calls of `/v2`: JSON, problems (RFC 9457), and Server-Sent Events read by fetch, because an EventSource
 * cannot send credentials.
 */

/** The address of the gateway, with the prefix of its listener: this module is at `ui/<version>/api.js`. */
export const ROOT = new URL("../../", import.meta.url);

const LONGEST_EVENT = 16 * 1024 * 1024;

/** What is sent as `Authorization`, or nothing.  Held here so that no other module sees it by accident. */
let authorization = "";

/** Told of what happens to calls: `refused` for 401, `answered` and `unreached` for the line to the gateway. */
export const line = new EventTarget();

/** @param {string} value */
export function setAuthorization(value) {
  authorization = value;
}

/**
 * Hand the header to a request that is not made here.
 * @param {(name: string, value: string) => void} set
 */
export function authorize(set) {
  if (authorization) set("Authorization", authorization);
}

/** An answer that is no success, or no answer at all (status 0). */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} title
   * @param {string} detail
   * @param {any} [body]
   */
  constructor(status, title, detail, body) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.body = body;
  }

  /** The caller's NATS permissions, or a read-only gateway, do not allow it. */
  get isForbidden() {
    return this.status === 403;
  }

  /** Nobody answered, or NATS is away. */
  get isAway() {
    return this.status === 0 || this.status === 503 || this.status === 504;
  }
}

/** @param {any} error */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * @param {string} path below the root, e.g. `v2/streams`
 * @param {Object<string, any>} [query] nothing and empty texts are left out
 */
export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "" || value === false) continue;
    for (const each of Array.isArray(value) ? value : [value]) url.searchParams.append(name, String(each));
  }
  return url;
}

/**
 * Join path segments, each encoded.
 * @param {...(string|number)} segments
 */
export function pathOf(...segments) {
  return segments.map((segment) => encodeURIComponent(String(segment))).join("/");
}

/**
 * @typedef {Object} Options
 * @property {Object<string, any>} [query]
 * @property {any} [json] a body that is written as JSON
 * @property {BodyInit} [body] a body as it is
 * @property {Object<string, string>} [headers]
 * @property {AbortSignal} [signal]
 */

/**
 * Call the gateway; raises Problem.
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<Response>}
 */
export async function call(method, path, options = {}) {
  const headers = new Headers(options.headers);
  if (authorization) headers.set("Authorization", authorization);
  let body = options.body;
  if (options.json !== undefined) {
    body = JSON.stringify(options.json);
    headers.set("Content-Type", "application/json");
  }
  let response;
  try {
    // Without the browser's own credentials: a refusal must not open its password window.
    const request = { method, headers, body, signal: options.signal, credentials: "omit", cache: "no-store" };
    response = await fetch(address(path, options.query), /** @type {RequestInit} */ (request));
  } catch (error) {
    if (isAbort(error)) throw error;
    line.dispatchEvent(new CustomEvent("unreached"));
    throw new Problem(0, "No answer", "The gateway does not answer.");
  }
  line.dispatchEvent(new CustomEvent("answered"));
  if (response.ok || response.status === 304) return response;
  throw await problemOf(response);
}

/** @param {Response} response */
async function problemOf(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // not ours: a proxy's page, perhaps
  }
  const title = body?.title || response.statusText || `Status ${response.status}`;
  const problem = new Problem(response.status, title, body?.detail || "", body);
  if (response.status === 401) line.dispatchEvent(new CustomEvent("refused", { detail: problem }));
  return problem;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>} the JSON of the answer, null if it has none
 */
export async function json(method, path, options = {}) {
  const response = await call(method, path, {
    ...options,
    headers: { Accept: "application/json", ...options.headers },
  });
  if (response.status === 204 || response.status === 202) return null;
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** @param {string} path @param {Object<string, any>} [query] @param {AbortSignal} [signal] */
export const get = (path, query, signal) => json("GET", path, { query, signal });
/** @param {string} path @param {any} [body] @param {Options} [options] */
export const post = (path, body, options) => json("POST", path, { ...options, json: body });
/** @param {string} path @param {Object<string, any>} [query] */
export const remove = (path, query) => json("DELETE", path, { query });

/**
 * @typedef {Object} ServerEvent
 * @property {string} event
 * @property {string} id
 * @property {any} data parsed JSON
 */

/**
 * Read Server-Sent Events until the line ends; raises Problem if it does not end well.  `onSign` is called for
 * every sign of life, pings too.
 * @param {string} path
 * @param {{query?: Object<string, any>, signal: AbortSignal, lastId?: string, onSign?: () => void}} options
 * @returns {AsyncGenerator<ServerEvent, void, void>}
 */
export async function* events(path, { query, signal, lastId, onSign }) {
  /** @type {Object<string, string>} */
  const headers = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  const response = await call("GET", path, { query, signal, headers });
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      let part;
      try {
        part = await reader.read();
      } catch (error) {
        if (isAbort(error) || signal.aborted) throw new DOMException("left", "AbortError");
        throw new Problem(0, "The line was cut", "The gateway ended the connection.");
      }
      if (part.done) return;
      onSign?.();
      const blocks = (rest + part.value).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      if (rest.length > LONGEST_EVENT) throw new Problem(0, "Too long", "An event is too long to be shown.");
      for (const block of blocks) {
        const found = parseEvent(block);
        if (!found) continue;
        if (found.event === "problem") {
          throw new Problem(
            found.data?.status ?? 500,
            found.data?.title ?? "Problem",
            found.data?.detail ?? "",
            found.data,
          );
        }
        yield found;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * @param {string} block
 * @returns {ServerEvent|null} nothing for comments
 */
function parseEvent(block) {
  let event = "message";
  let id = "";
  const data = [];
  for (const text of block.split(/\r?\n/)) {
    const colon = text.indexOf(":");
    if (colon === 0 || !text) continue;
    const name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
    else if (name === "id") id = value;
  }
  if (!data.length) return null;
  try {
    return { event, id, data: JSON.parse(data.join("\n")) };
  } catch {
    return null;
  }
}
