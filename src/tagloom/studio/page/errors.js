// @ts-check
// Errors: the confusion matrix and its mistakes in context, two models side by side, gold labels that are
// probably wrong, calibration.
import { get, post } from "./api.js";
import { reliabilityChart } from "./charts.js";
import { count, h, percent, prob, put, word } from "./dom.js";
import { link } from "./links.js";

/** @typedef {import("./main.js").Context} Context */
/** @typedef {import("./main.js").Params} Params */
/** @typedef {{sentence: number, token: number, before: string[], word: string, after: string[], [key: string]: any}} Row */

const TABS = [["", "Confusion"], ["compare", "Two models"], ["suspects", "Likely wrong in gold"], ["calibration", "Calibration"]];

export class Errors {
  /** @param {Context} context */
  constructor(context) {
    this.context = context;
    this.params = /** @type {Params} */ ({});
    this.tabs = h("nav", { class: "tabs", "aria-label": "Kinds of errors" });
    this.body = h("div");
    this.element = h("div", { class: "place" }, this.tabs, this.body);
    this.on = "corpus";
    /** @type {Promise<any>} */
    this.matrix = Promise.resolve(null);
  }

  /** @param {Params} params */
  async show(params) {
    this.params = params;
    const tab = params.tab ?? "";
    put(this.tabs, TABS.map(([name, title]) => h("a", { href: link("errors", { tab: name || undefined }), "aria-current": name === tab ? "true" : null }, title)));
    try {
      if (tab === "compare") await this.#compare();
      else if (tab === "suspects") await this.#suspects();
      else if (tab === "calibration") await this.#calibration();
      else await this.#confusion();
    } catch (error) {
      put(this.body, h("p", { class: "quiet" }, error instanceof Error ? error.message : ""));
    }
  }

  async #confusion() {
    const data = await get("/api/confusion");
    this.on = data.on;
    if (!data.n_tokens) {
      put(this.body, h("p", { class: "quiet" }, "No sentence has all its labels yet."));
      return;
    }
    const { gold, pred } = this.params;
    const labels = /** @type {string[]} */ (data.labels);
    const most = Math.max(1, ...data.matrix.flatMap((/** @type {number[]} */ row, /** @type {number} */ i) => row.filter((_, j) => j !== i)));
    const cell = (/** @type {number} */ n, /** @type {number} */ i, /** @type {number} */ j) => {
      const strength = i === j ? 0 : Math.log1p(n) / Math.log1p(most);
      const chosen = labels[i] === gold && labels[j] === pred;
      return h("td", { class: (i === j ? "right" : strength > 0.6 ? "hot" : "") + (chosen ? " chosen" : ""), style: { "--heat": strength.toFixed(3) } },
        n === 0 ? "" : h("a", { href: link("errors", { gold: labels[i], pred: labels[j] }), "aria-label": `${n} tokens: ${labels[i]} predicted as ${labels[j]}` }, n));
    };
    const list = h("div");
    put(this.body,
      h("p", { class: "lead" }, h("b", null, percent(data.accuracy)), ` of ${count(data.n_tokens, "token")} `, h("span", { class: "quiet" }, data.on === "test" ? "in the held-out sentences" : "in the corpus itself, on which the model was trained: pass --test FILE"),
        data.f1 !== null && h("span", null, `, span F1 ${percent(data.f1)}`)),
      h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Confusion matrix" }, h("table", { class: "matrix" }, h("caption", null, "gold ↓, predicted →" + (data.n_other ? `; the ${labels.length} most confused of ${labels.length + data.n_other} labels` : "")),
        h("thead", null, h("tr", null, h("td"), labels.map((y) => h("th", { scope: "col" }, h("span", null, word(y)))), h("th", { scope: "col" }, h("span", null, "F1")))),
        h("tbody", null, data.matrix.map((/** @type {number[]} */ row, /** @type {number} */ i) => h("tr", null, h("th", { scope: "row" }, word(labels[i])), row.map((n, j) => cell(n, i, j)),
          h("td", { class: "number quiet" }, data.scores[labels[i]] ? prob(data.scores[labels[i]][2]) : "")))))),
      list);
    const found = await get("/api/mistakes", { gold, predicted: pred, offset: this.params.offset });
    put(list, h("h2", null, gold !== undefined ? h("span", null, word(gold), h("span", { class: "quiet" }, " predicted as "), word(pred ?? "")) : "All mistakes", h("span", { class: "quiet" }, ` · ${found.total.toLocaleString("en")}`),
      gold !== undefined && h("a", { class: "aside", href: link("errors") }, "show all")), this.#rows(found.rows, (row) => [h("td", null, word(row.gold)), h("td", { class: "wrong" }, word(row.predicted))], ["gold", "predicted"]),
      this.#pages(found.total));
  }

  /** @param {number} total */
  #pages(total) {
    const offset = Number(this.params.offset ?? 0);
    if (total <= 100) return null;
    const to = (/** @type {number} */ n, /** @type {string} */ text) => h("a", { class: "button", href: link("errors", { ...this.params, offset: n ? String(n) : undefined }) }, text);
    return h("p", { class: "tools" }, offset > 0 && to(Math.max(0, offset - 100), "Earlier"), offset + 100 < total && to(offset + 100, "Later"), h("span", { class: "quiet" }, `${offset + 1} to ${Math.min(offset + 100, total)}`));
  }

  /** @param {Row[]} rows @param {(row: Row) => HTMLElement[]} cells @param {string[]} names @param {boolean} [inCorpus] */
  #rows(rows, cells, names, inCorpus = this.on === "corpus") {
    const head = ["in context", ...names, "open"];
    return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Tokens in context" }, h("table", { class: "contexts" }, h("thead", null, h("tr", null, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, rows.map((row) => h("tr", null, h("td", { class: "context" }, row.before.map((w) => [word(w), " "]).flat(), h("b", null, word(row.word)), " ", row.after.map((w) => [word(w), " "]).flat()), cells(row),
        h("td", { class: "tools" }, inCorpus && h("a", { href: link("label", { i: String(row.sentence), t: String(row.token) }) }, "Label"),
          inCorpus ? h("a", { href: link("try", { s: String(row.sentence) }) }, "Try") : h("button", { class: "link", onclick: () => this.#try(row.sentence) }, "Try")))))));
  }

  /** @param {number} index */
  async #try(index) {
    const tokens = await get(`/api/test/${index}`);
    this.context.go("try", { tokens: JSON.stringify(tokens) });
  }

  async #compare() {
    const data = await get("/api/comparison");
    this.on = data.on;
    if (data.accuracy_a === undefined) {
      put(this.body, h("p", { class: "quiet" }, "No sentence has all its labels yet."));
      return;
    }
    put(this.body, h("p", { class: "lead" }, h("b", null, percent(data.accuracy_a)), " this model, ", h("b", null, percent(data.accuracy_b)), " the other"),
      h("p", null, `${count(data.total, "token")} differ: only this model is right at ${data.only_a}, only the other at ${data.only_b}. p = ${prob(data.p_value, 4)} `, h("span", { class: "quiet" }, "(approximate randomisation over sentences)")),
      this.#rows(data.rows, (row) => [h("td", null, word(row.gold)), h("td", { class: row.a === row.gold ? "good" : "wrong" }, word(row.a)), h("td", { class: row.b === row.gold ? "good" : "wrong" }, word(row.b))], ["gold", "this", "other"]));
  }

  async #suspects() {
    const data = await get("/api/suspects");
    if (data.state === "running") {
      put(this.body, h("p", { class: "quiet" }, "Training five models, each without a fifth of the sentences …"), h("progress"));
      return;
    }
    const again = h("button", { onclick: async () => { await post("/api/suspects"); await this.#suspects(); } }, "Look again");
    if (data.state === "failed") {
      put(this.body, h("p", { class: "bad" }, data.message), again);
      return;
    }
    put(this.body, h("p", null, "Gold labels that are improbable to a model trained without their sentence. The most suspect come first. ", again),
      this.#rows(data.rows, (row) => [h("td", { class: "wrong" }, word(row.label), h("span", { class: "number quiet" }, " " + prob(row.prob, 3))), h("td", null, word(row.suggestion), h("span", { class: "number quiet" }, " " + prob(row.suggestion_prob, 3)))], ["gold", "rather"], true));
  }

  async #calibration() {
    const data = await get("/api/calibration");
    if (!data.n) {
      put(this.body, h("p", { class: "quiet" }, "No sentence has all its labels yet."));
      return;
    }
    put(this.body, h("p", { class: "lead" }, h("b", null, percent(data.ece)), " expected calibration error"),
      h("p", { class: "quiet" }, `Mean probability ${percent(data.confidence)}, correct ${percent(data.accuracy)}. Columns on the diagonal are well calibrated.`),
      h("div", { class: "columns" }, h("div", null, /** @type {any} */ (reliabilityChart(data.bins))),
        h("table", null, h("thead", null, h("tr", null, ["probability", "tokens", "mean", "correct"].map((n) => h("th", { scope: "col", class: "number" }, n)))),
          h("tbody", null, data.bins.filter((/** @type {any} */ b) => b.n).map((/** @type {any} */ b) => h("tr", null, h("td", { class: "number" }, `${prob(b.low, 1)} to ${prob(b.high, 1)}`), h("td", { class: "number" }, b.n.toLocaleString("en")), h("td", { class: "number" }, prob(b.confidence, 3)), h("td", { class: "number" }, prob(b.accuracy, 3))))))));
  }

  /** @param {import("./api.js").ServerEvent} event */
  event(event) {
    if (event.kind === "suspects" && this.params.tab === "suspects") this.#suspects().catch((error) => this.context.fail(error));
    if (event.kind === "model" && !this.params.tab) this.show(this.params);
  }
}
