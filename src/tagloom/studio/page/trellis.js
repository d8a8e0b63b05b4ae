// @ts-check
// The trellis: labels down, tokens across, as an ARIA grid with one tab stop. A click on a node forces
// its label. Cells are updated in place, and transitions are drawn as one path per strength, so that a
// new answer costs a few milliseconds and a few nodes.
import { h, prob, s, say, score, set, word } from "./dom.js";

/** @typedef {import("./api.js").TrellisView} TrellisView */

const ROW = 34;
const STRENGTHS = [0.001, 0.01, 0.05, 0.2, 0.5];

export class Trellis {
  /**
   * @param {{onforce: (t: number, label: string) => void, onfocus: (t: number, label: string) => void}} actions
   */
  constructor(actions) {
    this.actions = actions;
    /** @type {TrellisView | null} */
    this.view = null;
    /** @type {Record<number, string>} */
    this.force = {};
    this.root = h("div", { class: "trellis" });
    this.hint = h("p", { class: "hint reading", "aria-hidden": "true" });
    this.element = h("div", null, this.root, this.hint);
    /** @type {HTMLElement[][]} */
    this.cells = [];
    this.at = { t: 0, k: 0 };
    /** @type {string[][]} what --p was set to */
    this.radii = [];
    this.isClick = false; // a click asks once, for the new path
    this.shape = "";
    this.widths = /** @type {number[]} */ ([]);
    this.root.addEventListener("click", (event) => this.#click(event));
    this.root.addEventListener("keydown", (event) => this.#key(event));
    this.root.addEventListener("pointerover", (event) => this.#hover(event));
    this.root.addEventListener("focusin", (event) => this.#hover(event));
  }

  /** @param {TrellisView} view @param {Record<number, string>} force */
  update(view, force) {
    this.view = view;
    this.force = force;
    const shape = JSON.stringify([view.tokens, view.labels]);
    if (shape !== this.shape) this.#build(view);
    this.shape = shape;
    this.#paint(view);
    this.#draw(view);
    const labels = view.path.map((k, t) => `${view.tokens[t]} ${view.labels[k]}`).join(", ");
    say(`${labels}. Probability ${prob(view.prob)}.`);
  }

  /** @param {TrellisView} view */
  #build(view) {
    const focused = this.root.contains(document.activeElement);
    this.at = { t: Math.min(this.at.t, view.tokens.length - 1), k: Math.min(this.at.k, view.labels.length - 1) };
    const widths = view.tokens.map((w) => Math.min(Math.max(64, 9 * [...w].length + 22), 180));
    const rail = parseFloat(getComputedStyle(this.root).getPropertyValue("--rail")) || 84;
    const free = this.root.clientWidth - rail - widths.reduce((a, b) => a + b, 0) - 8;
    const extra = Math.floor(Math.max(0, Math.min(64, free / widths.length)));
    this.widths = widths.map((w) => w + extra);
    const columns = "var(--rail) " + this.widths.map((w) => w + "px").join(" ");
    const row = { role: "row", class: "line", style: { "grid-template-columns": columns } };
    const head = h("div", { ...row, class: "line head" }, h("div", { role: "columnheader", class: "rail" }, h("span", { class: "unseen" }, "label")),
      view.tokens.map((w) => h("div", { role: "columnheader", class: "token", title: w }, word(w))));
    this.cells = view.labels.map((name, k) =>
      view.tokens.map((_, t) => h("div", { role: "gridcell", class: "cell", tabindex: "-1", "data-t": t, "data-k": k })));
    this.radii = view.labels.map(() => view.tokens.map(() => ""));
    const lines = view.labels.map((name, k) => h("div", row, h("div", { role: "rowheader", class: "rail" }, word(name)), this.cells[k]));
    this.svg = s("svg", { class: "moves", "aria-hidden": "true", width: this.widths.reduce((a, b) => a + b, 0), height: ROW * view.labels.length });
    const grid = h("div", { role: "grid", "aria-label": "Trellis: labels down, tokens across", "aria-rowcount": view.labels.length + 1,
      "aria-colcount": view.tokens.length + 1 }, head, lines);
    this.root.replaceChildren(grid, this.svg);
    this.#setStop(this.at.t, this.at.k, focused);
  }

  /** @param {TrellisView} view */
  #paint(view) {
    view.labels.forEach((name, k) => {
      view.tokens.forEach((_, t) => {
        const cell = this.cells[k][t];
        const p = view.gamma[t][k];
        const onPath = view.path[t] === k;
        const isForced = this.force[t] === name;
        const text = onPath || p >= 0.05 ? (p >= 0.995 ? "1" : prob(p)) : "";
        if (cell.textContent !== text) cell.textContent = text;
        const kind = `cell${onPath ? " best" : p >= 0.05 ? " some" : ""}${isForced ? " forced" : ""}${p < 0.001 ? " faint" : ""}`;
        if (cell.className !== kind) cell.className = kind;
        const radius = p < 0.001 ? "" : Math.sqrt(p).toFixed(2);
        if (this.radii[k][t] !== radius) cell.style.setProperty("--p", (this.radii[k][t] = radius) || "0");
        const label = `${view.tokens[t]}, ${name}: ${prob(p)}${onPath ? ", best path" : ""}${isForced ? ", forced" : ""}`;
        if (cell.getAttribute("aria-label") !== label) set(cell, { "aria-label": label, "aria-selected": onPath ? "true" : "false" });
      });
    });
  }

  /** @param {TrellisView} view */
  #draw(view) {
    if (!this.svg) return;
    const x = [0];
    for (const w of this.widths) x.push(x[x.length - 1] + w);
    const centre = (/** @type {number} */ t) => x[t] + this.widths[t] / 2;
    const lines = STRENGTHS.map(() => /** @type {string[]} */ ([]));
    for (const [t, a, b, p] of view.moves) {
      const strength = STRENGTHS.findLastIndex((least) => p >= least);
      if (strength >= 0) lines[strength].push(curve(centre(t - 1), a, centre(t), b));
    }
    const best = view.path.slice(1).map((k, i) => curve(centre(i), view.path[i], centre(i + 1), k));
    this.svg.replaceChildren(...lines.map((d, i) => s("path", { d: d.join(""), class: `move m${i}` })), s("path", { d: best.join(""), class: "move best" }));
  }

  /** @param {Event} event @returns {{t: number, k: number} | null} */
  #cellOf(event) {
    const cell = /** @type {HTMLElement} */ (event.target).closest?.("[data-t]");
    return cell instanceof HTMLElement ? { t: Number(cell.dataset.t), k: Number(cell.dataset.k) } : null;
  }

  /** @param {Event} event */
  #click(event) {
    const at = this.#cellOf(event);
    if (!at || !this.view) return;
    this.isClick = true;
    this.#setStop(at.t, at.k, true);
    this.isClick = false;
    this.actions.onforce(at.t, this.view.labels[at.k]);
  }

  /** @param {Event} event */
  #hover(event) {
    const at = this.#cellOf(event);
    const view = this.view;
    if (!at || !view) return;
    if (event.type === "focusin" && !this.isClick) this.actions.onfocus(at.t, view.labels[at.k]);
    const { t, k } = at;
    const parts = [`γ = ${prob(view.gamma[t][k], 4)}`];
    if (view.alpha && view.beta) parts.push(`α = ${score(view.alpha[t][k])}`, `β = ${score(view.beta[t][k])}`, `log Z = ${score(view.log_z)}`);
    this.hint.replaceChildren(word(view.tokens[t]), ` as ${view.labels[k]}:  ` + parts.join("   "));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const at = this.#cellOf(event);
    if (!at || !this.view || event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[event.key];
    if (move) this.#setStop(clamp(at.t + move[0], this.view.tokens.length), clamp(at.k + move[1], this.view.labels.length), true);
    else if (event.key === "Home") this.#setStop(0, at.k, true);
    else if (event.key === "End") this.#setStop(this.view.tokens.length - 1, at.k, true);
    else if (event.key === "Enter" || event.key === " ") this.actions.onforce(at.t, this.view.labels[at.k]);
    else if (event.key === "Backspace" && this.force[at.t]) this.actions.onforce(at.t, this.force[at.t]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The one cell that Tab reaches. @param {number} t @param {number} k @param {boolean} focus */
  #setStop(t, k, focus) {
    this.cells[this.at.k]?.[this.at.t]?.setAttribute("tabindex", "-1");
    this.at = { t, k };
    const cell = this.cells[k]?.[t];
    cell?.setAttribute("tabindex", "0");
    if (focus) cell?.focus({ preventScroll: false });
  }
}

/** @param {number} i @param {number} n */
const clamp = (i, n) => Math.max(0, Math.min(n - 1, i));

/** @param {number} x0 @param {number} a @param {number} x1 @param {number} b */
function curve(x0, a, x1, b) {
  const [y0, y1] = [ROW * (a + 0.5), ROW * (b + 0.5)];
  const middle = (x0 + x1) / 2;
  return `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
}
