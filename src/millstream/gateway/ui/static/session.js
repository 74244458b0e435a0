/**
 * Who looks: NATS credentials, held in memory, or for this tab only if the user wants that; and what the
 * gateway says about them.
 */
import { Problem, get, setAuthorization } from "./api.js";

const KEPT = "millstream.authorization";

/**
 * @typedef {Object} WhoAmI
 * @property {{name: string, id: string, version: string, cluster: string, domain: string, max_payload: number, is_millstream: boolean}} server
 * @property {string} account
 * @property {string} user
 * @property {any} permissions
 * @property {boolean} is_system
 * @property {boolean} read_only
 * @property {boolean} jetstream
 */

class Session extends EventTarget {
  constructor() {
    super();
    /** @type {WhoAmI|null} */
    this.who = null;
    this.hasCredentials = false;
    const kept = sessionStorage.getItem(KEPT);
    if (kept) this.#use(kept);
  }

  get isReadOnly() {
    return !!this.who?.read_only;
  }

  /** Ask the gateway who we are; raises Problem. */
  async load() {
    this.who = await get("v2/whoami");
    this.dispatchEvent(new CustomEvent("change"));
    return this.who;
  }

  /**
   * Log in; raises Problem and stays as it was if NATS refuses.
   * @param {string} authorization
   * @param {boolean} keep for this tab
   */
  async login(authorization, keep) {
    this.#use(authorization);
    try {
      await this.load();
    } catch (error) {
      if (error instanceof Problem && !error.isAway) this.forget();
      throw error;
    }
    if (keep && authorization) sessionStorage.setItem(KEPT, authorization);
  }

  forget() {
    sessionStorage.removeItem(KEPT);
    this.#use("");
    this.who = null;
  }

  /** @param {string} authorization */
  #use(authorization) {
    this.hasCredentials = !!authorization;
    setAuthorization(authorization);
  }
}

export const session = new Session();

/** A server's name for people: an id in place of a name is cut. @param {{name: string, id: string}} server */
export function serverName(server) {
  return server.name === server.id ? `${server.id.slice(0, 8)}…` : server.name;
}

/** @param {string} text @returns {string} base64 of its UTF-8 */
export function base64Of(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
