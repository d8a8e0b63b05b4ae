// @ts-check
// Try: a sentence, its labels, its trellis, other labellings, and why. The URL holds all of it.
import { ApiError, get, latest, post } from "./api.js";
import { afterPaint, h, notify, prob, put, set, word } from "./dom.js";
import { link } from "./links.js";
import { Trellis } from "./trellis.js";
import { whyPanel } from "./why.js";

/** @typedef {import("./api.js").TrellisView} TrellisView */
/** @typedef {import("./main.js").Context} Context */
/** @typedef {import("./main.js").Params} Params */

const FIRST = "They can fish where the old man fished.";

export class Try {
  /** @param {Context} context */
  constructor(context) {
    this.context = context;
    this.params = /** @type {Params} */ ({});
    this.position = -1;
    this.ask = latest((body) => post("/api/trellis", body));
    this.askNodes = latest((body) => post("/api/nodes", body));
    this.askWhy = latest((body) => post("/api/why", body));
    this.input = /** @type {HTMLInputElement} */ (h("input", { id: "text", type: "text", autocomplete: "off", spellcheck: "false", "aria-label": "Sentence", oninput: () => this.#typed() }));
    this.trellis = new Trellis({ onforce: (t, label) => this.#force(t, label), onfocus: (t) => this.#why(t), nodes: (t) => this.#nodes(t) });
    this.tokens = h("div", { class: "sentence large" });
    this.tools = h("div", { class: "tools" });
    this.nbest = h("section", { class: "panel" });
    this.why = h("div");
    this.empty = h("p", { class: "empty", hidden: true });
    this.rest = h("div", null, this.tokens, this.tools, this.trellis.element, h("div", { class: "columns" }, this.why, this.nbest));
    this.element = h("div", { class: "place" }, h("form", { class: "bar", onsubmit: (/** @type {Event} */ e) => e.preventDefault() }, this.input),
      this.empty, this.rest);
    /** @type {TrellisView | null} */
    this.view = null;
    this.timer = 0;
    this.shown = ""; // tokens that the page shows
  }

  /** @param {Params} params */
  async show(params) {
    const sameText = this.params.text === params.text && this.params.s === params.s && this.params.tokens === params.tokens;
    this.params = params;
    if (!sameText) this.position = -1;
    if (document.activeElement !== this.input) this.input.value = params.text ?? (params.tokens ? JSON.parse(params.tokens).join(" ") : params.s ? "" : FIRST);
    await this.refresh();
  }

  /** What the requests are about. */
  #about() {
    const { s, tokens, text } = this.params;
    const what = s !== undefined ? { sentence: Number(s) } : tokens ? { tokens: JSON.parse(tokens) } : { text: text ?? FIRST };
    return { ...what, force: this.#forced(), show_all: this.params.all === "1" };
  }

  /** @returns {Record<number, string>} */
  #forced() {
    /** @type {Record<number, string>} */
    const result = {};
    for (const part of (this.params.force ?? "").split(",")) {
      const at = part.indexOf(":");
      if (at > 0) result[Number(part.slice(0, at))] = decodeURIComponent(part.slice(at + 1));
    }
    return result;
  }

  async refresh() {
    if (!(this.params.text ?? FIRST).trim() && !this.params.s && !this.params.tokens) return;
    try {
      const view = await this.ask(this.#about());
      if (!view) return;
      this.rest.hidden = false;
      this.empty.hidden = true;
      this.#draw(view);
    } catch (error) {
      if (this.view || !(error instanceof ApiError)) this.context.fail(error);
      else {
        this.rest.hidden = true;
        this.empty.hidden = false;
        put(this.empty, error.message, " ", h("a", { href: link("label") }, "Label sentences"));
      }
    }
  }

  /** @param {TrellisView} view */
  #draw(view) {
    this.view = view;
    const force = this.#forced();
    this.trellis.update(view, force);
    if (this.params.s && document.activeElement !== this.input) this.input.value = view.tokens.join(" ");
    this.#drawTokens(view, force);
    if (this.position < 0 || this.position >= view.tokens.length) {
      const doubts = view.tokens.map((_, t) => view.gamma[t][view.path[t]]);
      this.position = doubts.indexOf(Math.min(...doubts));
    }
    afterPaint(() => this.view === view && this.#drawRest(view, Object.keys(force).length));
  }

  /** @param {TrellisView} view @param {Record<number, string>} force */
  #drawTokens(view, force) {
    const text = JSON.stringify(view.tokens);
    if (text !== this.shown) {
      this.shown = text;
      put(this.tokens, view.tokens.map((token, t) => h("button", { onclick: () => this.#why(t) }, word(token),
        h("span", { class: "label" }, h("span"), h("span", { class: "p" })))));
    }
    view.tokens.forEach((_, t) => {
      const p = view.gamma[t][view.path[t]];
      const button = /** @type {HTMLElement} */ (this.tokens.children[t]);
      const kind = "token" + (p < 0.8 ? " doubtful" : "") + (force[t] ? " forced" : "");
      if (button.className !== kind) button.className = kind;
      const [label, share] = /** @type {any} */ (button.lastChild).children;
      if (label.textContent !== view.labels[view.path[t]]) label.textContent = view.labels[view.path[t]];
      if (share.textContent !== prob(p)) set(button, { title: `${prob(p, 3)}; click to see why` });
      if (share.textContent !== prob(p)) share.textContent = prob(p);
      set(button, { "aria-pressed": String(t === this.position) });
    });
  }

  /** What can wait until the new path is on the screen. @param {TrellisView} view @param {number} n */
  #drawRest(view, n) {
    put(this.tools,
      n > 0 && h("button", { onclick: () => this.#go({ force: undefined }) }, `Release ${n} forced`),
      (view.n_hidden > 0 || this.params.all === "1") && h("button", { onclick: () => this.#go({ all: this.params.all === "1" ? undefined : "1" }) },
        this.params.all === "1" ? "Likely labels only" : `Show ${view.n_hidden} unlikely labels`),
      h("a", { class: "button", href: link("steps", this.#same()) }, "Step through this"),
      h("button", { onclick: () => this.#copy() }, "Copy link"));
    put(this.nbest, h("h2", null, "Other labellings"),
      h("ol", { class: "nbest" }, view.nbest.map((best) => h("li", null, h("span", { class: "number" }, prob(best.prob, 3)),
        h("span", { class: "labelling" }, best.labels.map((label, t) => h("span", { class: label === view.labels[view.path[t]] ? "" : "differs" }, label)))))));
    this.#why(this.position);
  }

  /** The parameters that name the sentence. */
  #same() {
    const { text, s, tokens } = this.params;
    return s !== undefined ? { s } : tokens ? { tokens } : { text: text ?? FIRST };
  }

  /** @param {number} t @returns {Promise<import("./api.js").NodesView | null>} */
  async #nodes(t) {
    try {
      return await this.askNodes({ ...this.#about(), position: t });
    } catch (error) {
      this.context.fail(error);
      return null;
    }
  }

  /** @param {number} t */
  async #why(t) {
    this.position = t;
    [...this.tokens.children].forEach((token, i) => token.setAttribute("aria-pressed", i === t ? "true" : "false"));
    try {
      const why = await this.askWhy({ ...this.#about(), position: t });
      if (why && this.view) put(this.why, whyPanel(why, this.view.tokens));
    } catch (error) {
      this.context.fail(error);
    }
  }

  /** @param {number} t @param {string} label */
  #force(t, label) {
    const force = this.#forced();
    if (force[t] === label) delete force[t];
    else force[t] = label;
    this.position = t;
    const text = Object.entries(force).map(([k, v]) => `${k}:${encodeURIComponent(v)}`).join(",");
    this.#go({ force: text || undefined });
  }

  /** @param {Params} changes */
  #go(changes) {
    this.context.go("try", { ...this.params, ...changes });
  }

  #typed() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.context.go("try", { text: this.input.value }, true), 60);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(location.href);
      notify("The link is copied. It works while this studio runs.", "good");
    } catch {
      notify(location.href, "good");
    }
  }

  /** @param {import("./api.js").ServerEvent} event */
  event(event) {
    if (event.kind === "model") this.refresh();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key !== "/") return false;
    this.input.focus();
    this.input.select();
    return true;
  }
}

/** @returns {Promise<any>} */
export const examples = () => get("/api/examples");
