/**
 * Values that keep themselves fresh: one feed of Server-Sent Events each, connected again with back-off when
 * its line is lost, closed while the page is hidden (a browser has six connections for a host over HTTP/1.1).
 *
 * `link` knows whether any feed is lost, and since when; the shell shows it and greys the values.
 */
import { Problem, events, isAbort, line } from "./api.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
const QUIET_MS = 8_000; // feeds of state speak every two seconds

/** Whether what is shown is fresh. */
class Link extends EventTarget {
  constructor() {
    super();
    /** @type {Set<Feed>} */
    this.lostFeeds = new Set();
    /** @type {Date|null} */
    this.lostSince = null;
    this.reason = "";
    this.retryAt = 0;
    line.addEventListener("unreached", () => this.#lose("The gateway does not answer."));
    line.addEventListener("answered", () => {
      if (!this.lostFeeds.size) this.#regain();
    });
  }

  get isUp() {
    return this.lostSince === null;
  }

  /** @param {Feed} feed @param {string} reason @param {number} retryAt */
  lost(feed, reason, retryAt) {
    this.lostFeeds.add(feed);
    this.retryAt = retryAt;
    this.#lose(reason);
  }

  /** @param {Feed} feed */
  regained(feed) {
    this.lostFeeds.delete(feed);
    if (!this.lostFeeds.size) this.#regain();
  }

  tryNow() {
    for (const feed of [...this.lostFeeds]) feed.tryNow();
    this.dispatchEvent(new CustomEvent("try"));
  }

  /** @param {string} reason */
  #lose(reason) {
    this.lostSince ??= new Date();
    this.reason = reason;
    this.dispatchEvent(new CustomEvent("change"));
  }

  #regain() {
    if (this.lostSince === null) return;
    this.lostSince = null;
    this.reason = "";
    this.dispatchEvent(new CustomEvent("change"));
    this.dispatchEvent(new CustomEvent("back"));
  }
}

export const link = new Link();

/**
 * @typedef {Object} FeedOptions
 * @property {Object<string, any>} [query]
 * @property {(event: import("./api.js").ServerEvent) => void} onEvent
 * @property {(problem: Problem) => void} [onRefused] for answers that a repetition does not mend; ends the feed
 * @property {(isUp: boolean) => void} [onState]
 * @property {number} [quietMs] how long a feed may be silent before its line counts as lost
 * @property {boolean} [resumes] send the id of the last event when connecting again
 */

/** One feed; ends with its scope. */
export class Feed {
  /**
   * @param {import("./scope.js").Scope} scope
   * @param {string} path
   * @param {FeedOptions} options
   */
  constructor(scope, path, options) {
    this.path = path;
    this.options = options;
    this.wait = FIRST_WAIT_MS;
    this.lastId = "";
    this.ended = false;
    /** @type {AbortController|null} */
    this.request = null;
    /** @type {any} */
    this.timer = 0;
    this.stop = scope.add(() => this.#end());
    scope.listen(document, "visibilitychange", () => (document.hidden ? this.#cut() : this.tryNow()));
    if (!document.hidden) this.#connect();
  }

  tryNow() {
    if (this.ended || this.request) return;
    clearTimeout(this.timer);
    this.#connect();
  }

  #cut() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = null;
  }

  #end() {
    this.ended = true;
    this.#cut();
    link.regained(this);
  }

  async #connect() {
    const request = (this.request = new AbortController());
    let watchdog = /** @type {any} */ (0);
    let silent = false;
    const onSign = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => {
        silent = true;
        request.abort();
      }, this.options.quietMs ?? QUIET_MS);
    };
    onSign();
    try {
      const lastId = this.options.resumes ? this.lastId : "";
      for await (const event of events(this.path, {
        query: this.options.query,
        signal: request.signal,
        lastId,
        onSign,
      })) {
        if (this.ended) return;
        if (event.id) this.lastId = event.id;
        this.wait = FIRST_WAIT_MS;
        this.options.onState?.(true);
        link.regained(this);
        this.options.onEvent(event);
      }
      this.#again(request, "The gateway ended the connection.");
    } catch (error) {
      if (silent) this.#again(request, "Nothing arrives any more.");
      else if (isAbort(error)) return;
      else if (error instanceof Problem && !error.isAway && error.status < 500) this.#refused(error);
      else this.#again(request, error instanceof Problem ? error.message : "The connection failed.");
      if (!(error instanceof Problem) && !isAbort(error)) console.warn(error);
    } finally {
      clearTimeout(watchdog);
    }
  }

  /** @param {AbortController} request @param {string} reason */
  #again(request, reason) {
    if (this.ended || this.request !== request) return;
    this.request = null;
    const wait = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
    this.options.onState?.(false);
    link.lost(this, reason, Date.now() + wait);
    this.timer = setTimeout(() => this.#connect(), wait);
  }

  /** @param {Problem} problem */
  #refused(problem) {
    this.stop();
    this.options.onRefused?.(problem);
  }
}

const MOST_SERIES = 40;
/** @type {Map<string, Series>} */
const kept = new Map(); // the least recently used first

/**
 * A series that outlives its view, so that coming back shows what came before.
 * @param {string} key with everything that it depends on
 * @param {number} most points
 */
export function keptSeries(key, most) {
  const found = kept.get(key) ?? new Series(most);
  kept.delete(key);
  kept.set(key, found);
  for (const oldest of [...kept.keys()].slice(0, -MOST_SERIES)) kept.delete(oldest);
  return found;
}

/** A series of the newest values, oldest first; bounded. */
export class Series {
  /** @param {number} most */
  constructor(most) {
    this.most = most;
    /** @type {{time: number, values: (number|null)[]}[]} */
    this.points = [];
  }

  /** @param {number} time ms @param {(number|null)[]} values */
  push(time, values) {
    if (this.points.length && time <= this.points[this.points.length - 1].time) return;
    this.points.push({ time, values });
    if (this.points.length > this.most) this.points.shift();
  }
}
