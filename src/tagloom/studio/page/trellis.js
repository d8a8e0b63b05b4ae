// @ts-check
// The trellis: labels down, tokens across, as an ARIA grid with one tab stop. A click on a node forces
// its label. Only cells whose numbers have changed are touched, and transitions are one path per strength
// for ten tokens, so that a new answer costs a few milliseconds and redraws a small part of the screen.
import { h, prob, s, say, score, set, word } from "./dom.js";

/** @typedef {import("./api.js").TrellisView} TrellisView */
/** @typedef {import("./api.js").NodesView} NodesView */

const ROW = 34;
const STRENGTHS = [0.001, 0.01, 0.05, 0.2, 0.5];
const BLOCK = 10; // tokens whose transitions are drawn together

export class Trellis {
  /**
   * @param {{onforce: (t: number, label: string) => void, onfocus: (t: number, label: string) => void,
   *   nodes: (t: number) => Promise<NodesView | null>}} actions
   */
  constructor(actions) {
    this.actions = actions;
    /** @type {TrellisView | null} */
    this.view = null;
    /** @type {Record<number, string>} */
    this.force = {};
    this.root = h("div", { class: "trellis" });
    this.hint = h("p", { class: "hint reading", "aria-hidden": "true" }, "Click a node to force its label. Point at one to see its probability γ and its scores α and β.");
    this.element = h("div", null, this.root, this.hint);
    /** @type {HTMLElement[][]} */
    this.cells = [];
    this.at = { t: 0, k: 0 };
    /** @type {Float64Array[]} the probability that each cell shows */
    this.probs = [];
    /** @type {Uint8Array[]} whether each cell is shown on the path (1) and forced (2) */
    this.marks = [];
    /** @type {{path: SVGElement, d: string}[][]} by block and strength; the best path is the last */
    this.lines = [];
    /** @type {Map<number, NodesView>} forward and backward scores of the tokens that were pointed at */
    this.nodes = new Map();
    this.pointed = "";
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
    this.nodes.clear();
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
    const widths = view.tokens.map((w) => Math.min(Math.max(64, 10 * [...w].length + 26), 180));
    const rail = parseFloat(getComputedStyle(this.root).getPropertyValue("--rail")) || 84;
    const free = this.root.clientWidth - rail - widths.reduce((a, b) => a + b, 0) - 8;
    const extra = Math.floor(Math.max(0, Math.min(64, free / widths.length)));
    this.widths = widths.map((w) => w + extra);
    const width = this.widths.reduce((a, b) => a + b, 0);
    const columns = "var(--rail) " + this.widths.map((w) => w + "px").join(" ");
    const row = { role: "row", class: "line", style: { "grid-template-columns": columns, width: `calc(var(--rail) + ${width}px)` } };
    const head = h("div", { ...row, class: "line head" }, h("div", { role: "columnheader", class: "rail" }, h("span", { class: "unseen" }, "label")),
      view.tokens.map((w) => h("div", { role: "columnheader", class: "token", title: w }, word(w))));
    this.cells = view.labels.map((name, k) =>
      view.tokens.map((_, t) => h("div", { role: "gridcell", class: "cell", tabindex: "-1", "data-t": t, "data-k": k })));
    this.probs = view.labels.map(() => new Float64Array(view.tokens.length).fill(-1));
    this.marks = view.labels.map(() => new Uint8Array(view.tokens.length));
    const lines = view.labels.map((name, k) => h("div", row, h("div", { role: "rowheader", class: "rail" }, word(name)), this.cells[k]));
    const size = { "aria-hidden": "true", width, height: ROW * view.labels.length };
    // A column of dots is a line of dashes without length: cheap to draw, also for 9,000 cells.
    const dots = this.#centres().map((x) => s("path", { class: "dots", d: `M${x} ${ROW / 2}V${ROW * view.labels.length}` }));
    this.lines = [];
    for (let t = 0; t < view.tokens.length; t += BLOCK) {
      this.lines.push([...STRENGTHS.map((_, i) => `move m${i}`), "move best"].map((kind) => ({ path: s("path", { class: kind }), d: "" })));
    }
    const drawing = s("svg", { class: "moves", ...size }, ...this.lines.flat().map((line) => line.path));
    const grid = h("div", { role: "grid", "aria-label": "Trellis: labels down, tokens across", "aria-rowcount": view.labels.length + 1,
      "aria-colcount": view.tokens.length + 1 }, head, lines);
    this.root.replaceChildren(grid, s("svg", { class: "moves", ...size }, ...dots), drawing);
    this.#setStop(this.at.t, this.at.k, focused);
  }

  /** @param {TrellisView} view */
  #paint(view) {
    view.labels.forEach((name, k) => {
      const [probs, marks] = [this.probs[k], this.marks[k]];
      for (let t = 0; t < view.tokens.length; t++) {
        const p = view.gamma[t][k];
        const onPath = view.path[t] === k;
        const isForced = this.force[t] === name;
        const mark = (onPath ? 1 : 0) + (isForced ? 2 : 0);
        if (probs[t] === p && marks[t] === mark) continue;
        probs[t] = p;
        marks[t] = mark;
        const cell = this.cells[k][t];
        const text = onPath || p >= 0.05 ? (p >= 0.995 ? "1" : prob(p)) : "";
        if (cell.textContent !== text) cell.textContent = text;
        cell.className = `cell${onPath ? " best" : p >= 0.05 ? " some" : p < 0.001 ? " faint" : ""}${isForced ? " forced" : ""}`;
        if (p >= 0.001) cell.style.setProperty("--p", Math.sqrt(p).toFixed(2));
        set(cell, { "aria-label": `${view.tokens[t]}, ${name}: ${prob(p)}${onPath ? ", best path" : ""}${isForced ? ", forced" : ""}`, "aria-selected": String(onPath) });
      }
    });
  }

  /** The middle of each token's column. */
  #centres() {
    let x = 0;
    return this.widths.map((w) => (x += w) - w / 2);
  }

  /** @param {TrellisView} view */
  #draw(view) {
    const x = this.#centres();
    const pieces = this.lines.map((block) => block.map(() => /** @type {string[]} */ ([])));
    for (const [t, a, b, p] of view.moves) {
      const strength = STRENGTHS.findLastIndex((least) => p >= least);
      if (strength >= 0) pieces[Math.floor(t / BLOCK)][strength].push(curve(x[t - 1], a, x[t], b));
    }
    for (let t = 1; t < view.path.length; t++) pieces[Math.floor(t / BLOCK)][STRENGTHS.length].push(curve(x[t - 1], view.path[t - 1], x[t], view.path[t]));
    this.lines.forEach((block, i) => block.forEach((line, j) => {
      const d = pieces[i][j].join("");
      if (line.d !== d) line.path.setAttribute("d", (line.d = d));
    }));
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
    this.actions.onforce(at.t, this.view.labels[at.k]); // the server works while the focus moves
    this.isClick = true;
    this.#setStop(at.t, at.k, true);
    this.isClick = false;
  }

  /** @param {Event} event */
  #hover(event) {
    const at = this.#cellOf(event);
    const view = this.view;
    if (!at || !view) return;
    if (event.type === "focusin" && !this.isClick) this.actions.onfocus(at.t, view.labels[at.k]);
    this.#read(at.t, at.k);
  }

  /** Show the numbers of a node; those that the answer does not contain are asked for. @param {number} t @param {number} k */
  async #read(t, k) {
    const view = /** @type {TrellisView} */ (this.view);
    const pointed = (this.pointed = `${t} ${k}`);
    const show = (/** @type {NodesView | null | undefined} */ nodes) => {
      const name = view.labels[k];
      const parts = [`γ = ${prob(view.gamma[t][k], 4)}`];
      if (nodes && name in nodes.alpha) parts.push(`α = ${score(nodes.alpha[name])}`, `β = ${score(nodes.beta[name])}`, `log Z = ${score(view.log_z)}`);
      this.hint.replaceChildren(word(view.tokens[t]), ` as ${name}:  ` + parts.join("   "));
    };
    show(this.nodes.get(t));
    if (this.nodes.has(t)) return;
    await new Promise((resolve) => setTimeout(resolve, 80)); // the pointer may only pass by, and a click asks for a new path first
    if (this.pointed !== pointed || this.view !== view) return;
    const nodes = await this.actions.nodes(t);
    if (!nodes || this.view !== view) return;
    this.nodes.set(t, nodes);
    if (this.pointed === pointed) show(nodes);
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
