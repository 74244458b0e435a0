/**
 * The life of a view: whatever it starts, it starts in its scope, and leaving the view ends all of it.
 */
export class Scope {
  constructor() {
    this.abort = new AbortController();
    /** @type {Set<() => void>} */
    this.ends = new Set();
    this.ended = false;
  }

  /** @returns {AbortSignal} for requests that are of no use after the view */
  get signal() {
    return this.abort.signal;
  }

  /**
   * Call `end` when the scope ends; returns a function that ends it earlier.
   * @param {() => void} end
   */
  add(end) {
    if (this.ended) {
      end();
      return () => {};
    }
    const once = () => {
      if (this.ends.delete(once)) end();
    };
    this.ends.add(once);
    return once;
  }

  /**
   * @param {number} ms
   * @param {() => void} action
   */
  every(ms, action) {
    const timer = setInterval(action, ms);
    return this.add(() => clearInterval(timer));
  }

  /**
   * @param {number} ms
   * @param {() => void} action
   */
  after(ms, action) {
    const end = this.add(() => clearTimeout(timer));
    const timer = setTimeout(() => {
      this.ends.delete(end);
      action();
    }, ms);
    return end;
  }

  /**
   * @param {EventTarget} target
   * @param {string} event
   * @param {(event: any) => void} listener
   */
  listen(target, event, listener) {
    target.addEventListener(event, listener);
    return this.add(() => target.removeEventListener(event, listener));
  }

  /** A scope that ends with this one, or before it. */
  child() {
    const inner = new Scope();
    const forget = this.add(() => inner.end());
    inner.add(forget);
    return inner;
  }

  end() {
    if (this.ended) return;
    this.ended = true;
    this.abort.abort();
    for (const end of [...this.ends]) end();
  }
}

/**
 * Return a function that calls `action` once, `ms` after its last call; pending calls end with the scope.
 * @param {Scope} scope
 * @param {number} ms
 * @param {(...args: any[]) => void} action
 */
export function debounced(scope, ms, action) {
  let stop = () => {};
  return (/** @type {any[]} */ ...args) => {
    stop();
    stop = scope.after(ms, () => action(...args));
  };
}
