/** Dark or light: as the system says, until the user says otherwise. */
const KEPT = "millstream.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

class Theme extends EventTarget {
  constructor() {
    super();
    this.chosen = localStorage.getItem(KEPT) ?? "";
    this.#apply();
    system.addEventListener("change", () => this.#apply());
  }

  /** @returns {string} `dark` or `light` */
  get shown() {
    return this.chosen || (system.matches ? "dark" : "light");
  }

  toggle() {
    const next = this.shown === "dark" ? "light" : "dark";
    this.chosen = next === (system.matches ? "dark" : "light") ? "" : next;
    if (this.chosen) localStorage.setItem(KEPT, this.chosen);
    else localStorage.removeItem(KEPT);
    this.#apply();
  }

  #apply() {
    document.documentElement.dataset.theme = this.shown;
    this.dispatchEvent(new CustomEvent("change"));
  }
}

export const theme = new Theme();
