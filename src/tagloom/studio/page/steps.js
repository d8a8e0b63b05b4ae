// @ts-check
// Steps: Viterbi, forward and backward one cell at a time, with numbers that can be edited.
import { get, post } from "./api.js";
import { h, put, score, say, word } from "./dom.js";
import { link } from "./links.js";
import { argMax, backwardCandidates, forwardCandidates, run, scoresOf, transitions } from "./recursions.js";

/** @typedef {import("./recursions.js").Tables} Tables */
/** @typedef {import("./main.js").Context} Context */
/** @typedef {import("./main.js").Params} Params */
/** @typedef {Tables & {name: string, title: string, task: string, source: string}} Example */

const MOST = 8; // labels of one's own model that fit on a page

export class Steps {
  /** @param {Context} context */
  constructor(context) {
    this.context = context;
    /** @type {Example[]} */
    this.examples = [];
    /** @type {Example | null} */
    this.base = null;
    this.loaded = "";
    this.params = /** @type {Params} */ ({});
    this.part = "";
    this.at = 0;
    this.list = h("nav", { class: "cards", "aria-label": "Examples" });
    this.task = h("div", { class: "task" });
    this.controls = h("div", { class: "tools" });
    this.grid = h("div", { class: "wide" });
    this.formula = h("div", { class: "formula", "aria-live": "polite" });
    this.tables = h("div", { class: "tables" });
    this.element = h("div", { class: "place steps" }, this.list, this.task, this.controls, this.grid, this.formula, this.tables);
  }

  /** @param {Params} params @param {string} part */
  async show(params, part) {
    try {
      if (!this.examples.length) this.examples = (await get("/api/examples")).map(fromServer);
      const key = JSON.stringify([part, params.text, params.s, params.tokens]);
      if (key !== this.loaded) this.base = await this.#load(params, part);
      this.loaded = key;
    } catch (error) {
      this.context.fail(error);
      this.base = this.examples[0] ?? null;
    }
    this.params = params;
    this.part = part;
    this.at = Number(params.at ?? 0);
    this.draw();
  }

  /** @param {Params} params @param {string} part @returns {Promise<Example>} */
  async #load(params, part) {
    if (params.text === undefined && params.s === undefined && params.tokens === undefined) {
      return this.examples.find((e) => e.name === part) ?? this.examples[0];
    }
    const about = params.s !== undefined ? { sentence: Number(params.s) } : params.tokens ? { tokens: JSON.parse(params.tokens) } : { text: params.text };
    const [scores, view] = await Promise.all([post("/api/scores", about), post("/api/trellis", { ...about, show_all: true })]);
    return likely(fromServer({ ...scores, name: "", title: "Your sentence", source: "", task: "" }), view);
  }

  /** The tables with the edits of the URL. @returns {Example} */
  tablesNow() {
    const base = /** @type {Example} */ (this.base);
    const copy = structuredClone(base);
    for (const [where, value] of Object.entries(edits(this.params.edit))) {
      const [name, ...index] = where.split(".");
      let target = /** @type {any} */ (copy)[name];
      for (const i of index.slice(0, -1)) target = target?.[Number(i)];
      if (target && index.length) target[Number(index[index.length - 1])] = value;
    }
    return copy;
  }

  draw() {
    if (!this.base) return;
    const x = this.tablesNow();
    const mode = this.params.mode === "sum" ? "sum" : "max";
    const forwards = this.params.way !== "back";
    const T = x.tokens.length;
    const Y = x.labels.length;
    const result = run(x, mode);
    const values = forwards ? result.alpha : result.beta;
    const n = T * Y + 1;
    const at = Math.max(0, Math.min(n, this.at));
    put(this.list, this.examples.map((e) => h("a", { href: link("steps", {}, e.name), "aria-current": e.name === this.base?.name ? "true" : null }, e.title)));
    put(this.task, h("h2", null, x.title), h("p", null, x.task), x.source && h("p", { class: "quiet" }, x.source),
      this.part && h("p", { class: "quiet" }, "For your class: this page’s address opens it at this step, with these numbers."));
    this.#drawControls(mode, forwards, at, n);
    this.#drawGrid(x, values, at, forwards, mode === "max" && at >= n && forwards ? result.path : null, result.total, mode);
    this.#drawFormula(x, values, at, forwards, mode, result);
    this.#drawTables(x);
  }

  /** @param {string} mode @param {boolean} forwards @param {number} at @param {number} n */
  #drawControls(mode, forwards, at, n) {
    const focused = document.activeElement instanceof HTMLElement && this.controls.contains(document.activeElement) ? document.activeElement.dataset.name : "";
    const button = (/** @type {string} */ name, /** @type {string} */ text, /** @type {Params} */ changes, /** @type {boolean | undefined} */ pressed) =>
      h("button", { "data-name": name, "aria-pressed": pressed === undefined ? null : String(pressed), onclick: () => this.#go(changes) }, text);
    const slider = h("input", { type: "range", min: 0, max: n, value: at, "aria-label": "Step", "data-name": "slider",
      oninput: (/** @type {Event} */ e) => this.#go({ at: /** @type {HTMLInputElement} */ (e.target).value }) });
    put(this.controls,
      h("span", { class: "group", role: "group", "aria-label": "Operation" }, button("max", "max", { mode: undefined, at: "0" }, mode === "max"), button("sum", "log-sum", { mode: "sum", at: "0" }, mode === "sum")),
      h("span", { class: "group", role: "group", "aria-label": "Direction" }, button("forward", "forward", { way: undefined, at: "0" }, forwards), button("back", "backward", { way: "back", at: "0" }, !forwards)),
      h("span", { class: "group" }, button("first", "|◀", { at: "0" }, undefined), button("before", "◀", { at: String(Math.max(0, at - 1)) }, undefined), slider,
        button("next", "▶", { at: String(Math.min(n, at + 1)) }, undefined), button("last", "▶|", { at: String(n) }, undefined)),
      h("span", { class: "number quiet" }, `${at} / ${n}`),
      this.params.edit && h("button", { onclick: () => this.#go({ edit: undefined }) }, "Reset numbers"));
    const names = { first: "First step", before: "Step back", next: "Step", last: "Last step" };
    for (const [name, label] of Object.entries(names)) this.controls.querySelector(`[data-name=${name}]`)?.setAttribute("aria-label", label);
    if (focused) /** @type {HTMLElement | null} */ (this.controls.querySelector(`[data-name=${focused}]`))?.focus();
  }

  /**
   * @param {Tables} x @param {number[][]} values @param {number} at @param {boolean} forwards @param {number[] | null} path
   * @param {number} total @param {string} mode
   */
  #drawGrid(x, values, at, forwards, path, total, mode) {
    const T = x.tokens.length;
    const Y = x.labels.length;
    const [ct, cy] = place(at - 1, T, Y, forwards);
    const isDone = (/** @type {number} */ t, /** @type {number} */ y) => order(t, y, T, Y, forwards) < at;
    const near = at >= 1 && at <= T * Y ? (forwards ? ct - 1 : ct + 1) : -1;
    const cells = (/** @type {number} */ y) => x.tokens.map((_, t) => {
      const isCurrent = at >= 1 && at <= T * Y && t === ct && y === cy;
      const kind = `value${isCurrent ? " current" : ""}${t === near ? " near" : ""}${path?.[t] === y ? " best" : ""}`;
      return h("td", { class: kind, "data-t": t, "data-y": y }, isDone(t, y) ? score(values[t][y]) : "");
    });
    const end = h("td", { class: "value total" + (at > T * Y ? " current" : ""), rowspan: Y, "data-total": at > T * Y ? "1" : "0" }, at > T * Y ? score(total) : "");
    const rows = x.labels.map((name, y) => h("tr", null, h("th", { scope: "row" }, word(name)), cells(y), y === 0 && end));
    put(this.grid, h("table", { class: "steps-grid" },
      h("caption", { class: "unseen" }, forwards ? "Forward table" : "Backward table"),
      h("thead", null, h("tr", null, h("td"), x.tokens.map((w) => h("th", { scope: "col" }, word(w))), h("th", { scope: "col" }, mode === "max" ? "best" : "log Z"))), h("tbody", null, rows)));
    if (path) say(`Best path ${path.map((y) => x.labels[y]).join(" ")}, score ${score(total)}`);
  }

  /**
   * @param {Tables} x @param {number[][]} values @param {number} at @param {boolean} forwards @param {"max" | "sum"} mode
   * @param {{alpha: number[][], beta: number[][], total: number, path: number[] | null}} result
   */
  #drawFormula(x, values, at, forwards, mode, result) {
    const T = x.tokens.length;
    const Y = x.labels.length;
    const op = mode === "max" ? "max" : "log Σ exp";
    const name = forwards ? (mode === "max" ? "v" : "alpha") : mode === "max" ? "w" : "beta";
    const general = forwards
      ? `${name}[t, y] = ${op}_{y_prev} ( ${name}[t−1, y_prev] + trans[y_prev, y] + emit[t, y] )`
      : `${name}[t, y] = ${op}_{y_next} ( trans[y, y_next] + emit[t+1, y_next] + ${name}[t+1, y_next] )`;
    if (at === 0) {
      put(this.formula, h("p", { class: "math" }, formula(general)), h("p", { class: "quiet" }, "Press ▶ or the right arrow key for the first cell."));
      return;
    }
    if (at > T * Y) {
      const ends = forwards ? x.labels.map((_, y) => sum([result.alpha[T - 1][y], x.stop[y]])) : x.labels.map((_, y) => sum([x.start[y], x.emit[0][y], result.beta[0][y]]));
      put(this.formula, h("p", { class: "math" }, formula(forwards ? `${op}_{y} ( ${name}[T−1, y] + stop[y] )` : `${op}_{y} ( start[y] + emit[0, y] + ${name}[0, y] )`)),
        h("p", { class: "math" }, `= ${op}( ${ends.join(",  ")} ) = `, h("b", null, score(result.total, 4))),
        result.path && forwards && h("p", { class: "answer" }, "Best path: ", result.path.map((y) => x.labels[y]).join(" ")));
      return;
    }
    const [t, y] = place(at - 1, T, Y, forwards);
    const candidates = forwards ? forwardCandidates(x, values, t, y) : backwardCandidates(x, values, t, y);
    const best = mode === "max" ? argMax(candidates.map((c) => c.value)) : -1;
    put(this.formula, h("p", { class: "math" }, formula(candidates[0].from < 0 ? (forwards ? `${name}[0, y] = start[y] + emit[0, y]` : `${name}[T−1, y] = stop[y]`) : general)),
      h("p", { class: "math" }, `${name}[${t}, ${x.labels[y]}] =`),
      h("ul", { class: "candidates" }, candidates.map((c, i) => h("li", { class: i === best && candidates.length > 1 ? "best" : "" },
        c.from < 0 ? "" : `${forwards ? "from" : "to"} ${x.labels[c.from]}: `, h("span", { class: "number" }, sum(c.terms) + " = " + score(c.value))))),
      h("p", { class: "math" }, candidates.length > 1 ? `${op} = ` : "= ", h("b", null, score(values[t][y], 4))));
  }

  /** @param {Tables} x */
  #drawTables(x) {
    const active = document.activeElement instanceof HTMLInputElement ? document.activeElement.dataset.where : undefined;
    const field = (/** @type {string} */ where, /** @type {number} */ value, /** @type {string} */ label) =>
      h("td", null, h("input", { class: "score", "data-where": where, value: value === -Infinity ? "−∞" : score(value, 3), inputmode: "decimal", "aria-label": label,
        onchange: (/** @type {Event} */ e) => this.#edit(where, /** @type {HTMLInputElement} */ (e.target).value) }));
    const table = (/** @type {string} */ title, /** @type {string[]} */ columns, /** @type {[string, HTMLElement[]][]} */ rows) =>
      h("div", { class: "wide" }, h("table", { class: "edit" }, h("caption", null, title), h("thead", null, h("tr", null, h("td"), columns.map((c) => h("th", { scope: "col" }, word(c))))),
        h("tbody", null, rows.map(([name, cells]) => h("tr", null, h("th", { scope: "row" }, word(name)), cells)))));
    const isVarying = Array.isArray(x.trans[0]?.[0]);
    const position = isVarying ? Math.min(1, x.tokens.length - 1) : 0;
    const trans = isVarying && x.tokens.length < 2 ? null : transitions(x, position);
    put(this.tables,
      table("emit[t, y]", x.tokens, x.labels.map((name, y) => [name, x.tokens.map((w, t) => field(`emit.${t}.${y}`, x.emit[t][y], `emit of ${w} as ${name}`))])),
      trans && table("trans[y_prev, y]: from ↓ to →" + (isVarying ? ", into every position" : ""), x.labels, x.labels.map((name, p) => [name, x.labels.map((to, y) => field(isVarying ? `all.${p}.${y}` : `trans.${p}.${y}`, trans[p][y], `from ${name} to ${to}`))])),
      table("start and stop", ["start", "stop"], x.labels.map((name, y) => [name, [field(`start.${y}`, x.start[y], `start with ${name}`), field(`stop.${y}`, x.stop[y], `stop after ${name}`)]])));
    if (active) /** @type {HTMLElement | null} */ (this.tables.querySelector(`[data-where="${active}"]`))?.focus();
  }

  /** @param {string} where @param {string} text */
  #edit(where, text) {
    const value = /^[−-](∞|inf)/.test(text.trim()) ? -Infinity : Number(text.trim().replace("−", "-"));
    if (text.trim() === "" || Number.isNaN(value) || value === Infinity || Math.abs(value) > 1e9 && value !== -Infinity) {
      this.draw();
      return;
    }
    const all = edits(this.params.edit);
    if (where.startsWith("all.")) {
      // The transitions of a model into each position are the same but for its edge features.
      this.base?.tokens.forEach((_, t) => (all[where.replace("all", `trans.${t}`)] = value));
    } else all[where] = value;
    this.#go({ edit: Object.entries(all).map(([k, v]) => `${k}:${v === -Infinity ? "-inf" : v}`).join(";") });
  }

  /** @param {Params} changes */
  #go(changes) {
    this.context.go("steps", { ...this.params, ...changes }, true, this.part || this.base?.name || "");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const moves = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1 });
    if (!(event.key in moves) || !this.base) return false;
    const n = this.base.tokens.length * this.base.labels.length + 1;
    this.#go({ at: String(Math.max(0, Math.min(n, this.at + moves[event.key]))) });
    return true;
  }
}

/** Show what is in braces after an underscore below the line. @param {string} text */
const formula = (text) => text.split(/_\{(.*?)\}/).map((part, i) => (i % 2 ? h("sub", null, part) : part));

/** Write a sum with minus signs: −3 − 1 + 2. @param {number[]} terms */
const sum = (terms) => terms.map((v, i) => (i === 0 ? score(v) : v < 0 ? ` − ${v === -Infinity ? "∞" : score(-v)}` : ` + ${score(v)}`)).join("");

/** Cell number k, in the order in which the recursion fills the table. @param {number} k @param {number} T @param {number} Y @param {boolean} forwards */
function place(k, T, Y, forwards) {
  const t = Math.floor(k / Y);
  return [forwards ? t : T - 1 - t, k % Y];
}

/** @param {number} t @param {number} y @param {number} T @param {number} Y @param {boolean} forwards */
const order = (t, y, T, Y, forwards) => (forwards ? t : T - 1 - t) * Y + y;

/** @param {string | undefined} text @returns {Record<string, number>} */
export function edits(text) {
  /** @type {Record<string, number>} */
  const result = {};
  for (const part of (text ?? "").split(";").filter(Boolean)) {
    const [where, value] = part.split(":");
    result[where] = value === "-inf" ? -Infinity : Number(value);
  }
  return result;
}

/** @param {any} plain @returns {Example} */
function fromServer(plain) {
  return { ...plain, emit: scoresOf(plain.emit), trans: scoresOf(plain.trans), start: scoresOf(plain.start), stop: scoresOf(plain.stop) };
}

/** Keep the labels that matter. @param {Example} x @param {import("./api.js").TrellisView} view @returns {Example} */
function likely(x, view) {
  const weight = x.labels.map((_, y) => Math.max(...view.gamma.map((row) => row[y])));
  const ids = weight.map((_, y) => y).sort((a, b) => weight[b] - weight[a]).slice(0, MOST).sort((a, b) => a - b);
  const pick = (/** @type {any[]} */ row) => ids.map((y) => row[y]);
  const n = x.labels.length - ids.length;
  return { ...x, labels: pick(x.labels), emit: x.emit.map(pick), start: pick(x.start), stop: pick(x.stop),
    trans: /** @type {number[][][]} */ (x.trans).map((m) => pick(m).map(pick)),
    task: n > 0 ? `The ${ids.length} most likely of ${x.labels.length} labels; the others are left out of the sums.` : "All labels of the model." };
}
