// @ts-check
// Model: facts of the file, weights by pattern and label, transitions, training history.
import { get, latest } from "./api.js";
import { lineChart, stateGraph } from "./charts.js";
import { count, h, percent, prob, put, score, word } from "./dom.js";

/** @typedef {import("./main.js").Context} Context */
/** @typedef {import("./main.js").Params} Params */
/** @typedef {{name: string, start: number, stop: number | null, share: number, words: [string, number][]}} State */

export class ModelPlace {
  /** @param {Context} context */
  constructor(context) {
    this.context = context;
    this.params = /** @type {Params} */ ({});
    this.facts = h("section", { class: "panel" });
    this.weights = h("div");
    this.title = h("h2", null, "Weights");
    this.controls = h("div", { class: "tools" });
    this.transitions = h("section");
    this.history = h("section");
    this.states = h("section");
    this.panel = h("section", { class: "panel" }, this.title, this.controls, this.weights);
    this.ask = latest((query) => get("/api/weights", query));
    this.element = h("div", { class: "place" }, h("div", { class: "columns" }, this.facts, this.panel), this.history, this.states, this.transitions);
    this.number = -1;
    this.isProbs = false; // weights are logarithms of probabilities
  }

  /** @param {Params} params */
  async show(params) {
    this.params = params;
    try {
      const number = this.context.state?.model?.number ?? 0;
      if (number !== this.number || !this.facts.childElementCount) this.#draw(await get("/api/model"));
      this.number = number;
      this.panel.hidden = false;
      await this.#drawWeights();
    } catch (error) {
      put(this.facts, h("p", { class: "empty" }, error instanceof Error ? error.message : ""));
      this.panel.hidden = true;
    }
  }

  /** @param {any} model */
  #draw(model) {
    const fact = (/** @type {string} */ name, /** @type {any} */ value) => [h("dt", null, name), h("dd", null, value)];
    const { training, facts } = model;
    this.isProbs = model.states !== null;
    this.title.textContent = this.isProbs ? "Words" : "Weights";
    put(this.facts, h("h2", null, model.kind), h("dl", null,
      fact("labels", h("span", null, `${model.labels.length}: `, model.labels.slice(0, 60).map((/** @type {string} */ y) => [word(y), " "]).flat())),
      facts.scheme && fact("scheme", facts.scheme),
      facts.attributes && fact("attributes", facts.attributes.toLocaleString("en")), facts.weights && fact("weights", facts.weights.toLocaleString("en")), facts.words && fact("words", facts.words.toLocaleString("en")),
      training.sentences && fact("trained on", `${count(training.sentences, "sentence")}, ${count(training.tokens ?? 0, "token")}`),
      training.iterations && fact("iterations", training.iterations), training.seconds !== undefined && training.seconds !== null && fact("time", `${training.seconds} s`),
      facts.temperature !== 1 && fact("temperature", facts.temperature),
      facts.features && fact("templates", h("code", null, facts.features.join("; "))),
      fact("parameters", h("code", null, Object.entries(model.parameters).map(([k, v]) => `${k}=${v}`).join(", ")))));
    put(this.controls, h("input", { type: "search", "aria-label": "Pattern of attributes", placeholder: this.isProbs ? "word=*ing" : "suffix*", value: this.params.q ?? "", oninput: (/** @type {Event} */ e) => this.#go({ q: /** @type {HTMLInputElement} */ (e.target).value || undefined }) }),
      h("select", { "aria-label": "Label", onchange: (/** @type {Event} */ e) => this.#go({ label: /** @type {HTMLSelectElement} */ (e.target).value || undefined }) },
        h("option", { value: "" }, "all labels"), model.labels.map((/** @type {string} */ y) => h("option", { value: y, selected: y === this.params.label }, y))));
    put(this.history, model.history.length > 1 && [h("h2", null, "Training"), /** @type {any} */ (lineChart([{ name: "loss", points: model.history.map((/** @type {any} */ r) => [r.iteration, r.loss]) }], { x: "iterations", y: (v) => v.toPrecision(3), label: "Loss by iteration", width: 420 }))]);
    this.#drawStates(model.states, model.transitions);
    this.#drawTransitions(model.transitions);
  }

  /** @param {State[] | null} states @param {{weights: number[][]} | null} table */
  #drawStates(states, table) {
    if (!states || !table) {
      put(this.states);
      return;
    }
    const hasStop = states.some((state) => state.stop !== null);
    const heads = ["state", "share", "start", ...(hasStop ? ["stop"] : []), "stays", "most probable words"];
    put(this.states, h("h2", null, "States"), h("div", { class: "columns even" },
      h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of states" }, h("table", { class: "states" },
        h("thead", null, h("tr", null, heads.map((name, i) => h("th", { scope: "col", class: i && i < heads.length - 1 ? "number" : null }, name)))),
        h("tbody", null, states.map((state, i) => h("tr", null, h("th", { scope: "row" }, word(state.name)), h("td", { class: "number" }, percent(state.share)), h("td", { class: "number" }, prob(state.start, 3)),
          hasStop && h("td", { class: "number" }, prob(state.stop, 3)), h("td", { class: "number" }, prob(table.weights[i][i], 3)),
          h("td", { class: "words" }, state.words.map(([w, p]) => [h("span", { title: prob(p, 4) }, word(w)), " "]).flat())))))),
      h("div", null, stateGraph(states, table.weights), h("p", { class: "quiet" }, "Discs grow with the share of a state, arrows with the probability of a transition; those of at least 0.08 are drawn."))));
  }

  async #drawWeights() {
    const rows = await this.ask({ q: this.params.q, label: this.params.label });
    if (!rows) return;
    const value = (/** @type {any} */ w) => (this.isProbs ? Math.exp(w.weight) : w.weight);
    const most = Math.max(...rows.map((/** @type {any} */ w) => Math.abs(value(w))), 1e-9);
    put(this.weights, rows.length === 0 ? h("p", { class: "quiet" }, "No weight matches.") : h("div", { class: "wide tall", tabindex: "0", role: "region", "aria-label": "Weights" }, h("table", null,
      h("thead", null, h("tr", null, [this.isProbs ? "probability" : "weight", "", "label", "attribute"].map((n, i) => h("th", { scope: "col", class: i ? null : "number" }, n || h("span", { class: "unseen" }, "strength"))))),
      h("tbody", null, rows.map((/** @type {any} */ w) => h("tr", null, h("td", { class: "number" }, this.isProbs ? prob(value(w), 4) : score(w.weight, 3)), h("td", { class: "bar" }, h("span", { class: `strength ${value(w) >= 0 ? "for" : "against"}`, style: { "--share": (Math.abs(value(w)) / most).toFixed(3) } })), h("td", null, word(w.label)), h("td", null, word(w.attribute))))))));
  }

  /** @param {{labels: string[], weights: number[][], is_probs: boolean} | null} table */
  #drawTransitions(table) {
    if (!table) {
      put(this.transitions);
      return;
    }
    const most = Math.max(...table.weights.flat().map(Math.abs), 1e-9);
    put(this.transitions, h("h2", null, table.is_probs ? "Transition probabilities" : "Transition weights"), h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Transitions" }, h("table", { class: "matrix heat" }, h("caption", null, "from ↓, to →"),
      h("thead", null, h("tr", null, h("td"), table.labels.map((y) => h("th", { scope: "col" }, h("span", null, word(y)))))),
      h("tbody", null, table.weights.map((row, i) => h("tr", null, h("th", { scope: "row" }, word(table.labels[i])), row.map((w) => {
        const heat = Math.abs(w) / most;
        return h("td", { class: (w < 0 ? "cold" : "warm") + (heat > 0.6 ? " hot" : ""), style: { "--heat": heat.toFixed(3) } }, Math.abs(w) < 0.05 && !table.is_probs ? "" : table.is_probs ? (w < 0.005 ? "" : w.toFixed(2).replace(/^0/, "")) : score(w, 1));
      })))))));
  }

  /** @param {Params} changes */
  #go(changes) {
    this.context.go("model", { ...this.params, ...changes }, true);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key !== "/") return false;
    /** @type {HTMLElement | null} */ (this.controls.querySelector("input"))?.focus();
    return true;
  }

  stateChanged() {
    if (this.context.state?.model?.number !== this.number) this.show(this.params);
  }
}
