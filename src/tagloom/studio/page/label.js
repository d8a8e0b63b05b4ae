// @ts-check
// Label: one sentence large, the next ones small, the labels with their keys, the learning curve.
// The model is trained again after each correction, in the background; typing never waits for it.
import { ApiError, edit, get, latest, post } from "./api.js";
import { lineChart } from "./charts.js";
import { count, h, notify, percent, prob, put, say, word } from "./dom.js";
import { keysOf, plainKey, spansOf } from "./keys.js";
import { link } from "./links.js";

/** @typedef {import("./api.js").SentenceView} SentenceView */
/** @typedef {import("./main.js").Context} Context */
/** @typedef {import("./main.js").Params} Params */

const DOUBTFUL = 0.8;

export class LabelPlace {
  /** @param {Context} context */
  constructor(context) {
    this.context = context;
    this.params = /** @type {Params} */ ({});
    /** @type {SentenceView | null} */
    this.sentence = null;
    /** @type {SentenceView[]} */
    this.queue = [];
    this.token = 0;
    /** @type {number | null} */
    this.anchor = null;
    this.unsure = new Set();
    /** @type {Promise<void>} */
    this.busy = Promise.resolve();
    this.askQueue = latest((query) => get("/api/queue", query));
    this.tokens = h("div", { class: "sentence huge", role: "listbox", "aria-label": "Tokens of the sentence", "aria-orientation": "horizontal" });
    this.about = h("p", { class: "quiet about" });
    this.bar = h("div", { class: "labels", role: "group", "aria-label": "Labels" });
    this.next = h("ol", { class: "next" });
    this.side = h("aside", { class: "side", "aria-label": "Progress" });
    this.same = h("div");
    this.conflict = h("div");
    this.search = h("div", { class: "search" });
    this.element = h("div", { class: "place label-place" }, h("div", { class: "work" }, this.search, this.about, this.tokens, this.conflict, this.bar, this.same, h("h2", null, "Next"), this.next), this.side);
  }

  /** @param {Params} params */
  async show(params) {
    this.params = params;
    this.#drawSearch();
    try {
      if (params.i !== undefined) {
        const index = Number(params.i);
        if (this.sentence?.index !== index) this.#open(await get(`/api/sentences/${index}`), Number(params.t ?? 0));
        else if (params.t !== undefined) this.#select(Number(params.t), false);
      }
      await this.refreshQueue();
      if (!this.sentence && this.queue.length) this.context.go("label", { ...params, i: String(this.queue[0].index) }, true);
      if (!this.sentence && !this.queue.length) put(this.about, "Every sentence is labelled.");
    } catch (error) {
      this.context.fail(error);
    }
    this.stateChanged();
  }

  /** @param {SentenceView} sentence @param {number} [token] */
  #open(sentence, token = 0) {
    this.sentence = sentence;
    this.token = Math.min(token, Math.max(0, sentence.tokens.length - 1));
    this.anchor = null;
    this.unsure = new Set();
    put(this.same);
    put(this.conflict);
    this.draw();
  }

  async refreshQueue() {
    const queue = await this.askQueue({ n: 6, kind: this.params.queue ?? "doubt", skip: this.sentence?.index });
    if (!queue) return;
    const before = new Map(this.queue.map((s) => [s.index, s]));
    let changed = 0;
    for (const s of queue) {
      const old = before.get(s.index);
      if (old?.predicted && s.predicted) s.predicted.forEach((/** @type {string} */ y, /** @type {number} */ t) => (changed += Number(y !== old.predicted?.[t])));
    }
    this.queue = queue;
    put(this.next, queue.slice(0, 5).map((/** @type {SentenceView} */ s) => h("li", null, h("a", { href: link("label", { ...this.params, i: String(s.index) }) },
      s.tokens.slice(0, 40).map((w, t) => h("span", { class: "small" + ((s.probs?.[t] ?? 1) < DOUBTFUL ? " doubtful" : "") }, word(w), h("i", null, shown(s.labels[t]) || s.predicted?.[t] || ""))),
      h("span", { class: "number quiet" }, s.is_random ? "random" : prob(s.doubt, 3))))));
    if (changed) say(`${count(changed, "label")} of the next sentences changed.`);
    return changed;
  }

  get readOnly() {
    return this.context.state?.corpus.read_only ?? false;
  }

  get isSpans() {
    return Boolean(this.context.state?.scheme);
  }

  /** Names on the bar: types of spans, or labels. */
  get names() {
    const { state } = this.context;
    if (!state) return [];
    return this.isSpans ? state.types : state.labels;
  }

  /** Key to name. */
  get keys() {
    return this.isSpans ? keysOf(this.names) : keysOf(this.names, this.context.state?.frequent);
  }

  draw() {
    const sentence = this.sentence;
    if (!sentence) return;
    const spans = this.isSpans ? spansOf(sentence.labels) : [];
    const [first, last] = this.selection;
    put(this.about, `Sentence ${sentence.index + 1}` + (sentence.line ? `, line ${sentence.line}` : ""), sentence.accepted && h("b", { class: "good" }, " accepted"),
      sentence.is_random && " · drawn at random", h("span", { class: "tools" }, h("a", { href: link("try", { s: String(sentence.index) }) }, "Open in Try"), h("a", { href: link("steps", { s: String(sentence.index) }) }, "Steps")));
    put(this.tokens, sentence.tokens.map((w, t) => {
      const label = sentence.labels[t];
      const guess = sentence.predicted?.[t];
      const p = sentence.probs?.[t] ?? 1;
      const span = spans.find((s) => s.start <= t && t < s.end);
      const isOpen = label === null;
      const disagrees = guess !== undefined && !isOpen && guess !== label;
      const kind = ["token", p < DOUBTFUL && "doubtful", disagrees && "disagrees", isOpen && "open", span && "inside", span?.start === t && "first", span && span.end === t + 1 && "last", t >= first && t <= last && "selected"];
      return h("div", { class: kind.filter(Boolean).join(" "), role: "option", id: `token-${t}`, "aria-selected": String(t >= first && t <= last), tabindex: t === this.token ? "0" : "-1", "data-t": t,
        title: guess ? `The model says ${guess} ${prob(p)}` : "",
        onmousedown: (/** @type {MouseEvent} */ e) => this.#point(t, e), onclick: () => t !== this.token && this.#select(t, false), onfocus: () => t !== this.token && this.#select(t, false) },
        word(w), h("span", { class: "label" }, this.unsure.has(t) ? "unsure" : span && this.isSpans ? (span.start === t ? span.type : "·") : shown(label) || (guess ? h("i", null, guess) : "?")),
        h("span", { class: "guess" }, guess === undefined ? "" : disagrees || isOpen ? `${disagrees ? guess + " " : ""}${prob(p)}` : p < DOUBTFUL ? prob(p) : ""));
    }));
    this.#drawBar();
  }

  #drawBar() {
    const names = this.names;
    const keys = this.keys;
    const frequent = this.context.state?.frequent ?? [];
    const shownNames = names.length > 60 && !this.isSpans ? names.filter((name) => frequent.includes(name)) : names.slice(0, 60);
    const byName = new Map([...keys].map(([key, name]) => [name, key]));
    const now = this.sentence?.labels[this.token];
    const current = this.isSpans && typeof now === "string" ? now.slice(2) : now;
    put(this.bar, !names.length && !this.readOnly && h("span", { class: "quiet" }, "No labels yet: name the first ones here, then press their keys."), shownNames.map((name) => h("button", { "aria-pressed": String(name === current), disabled: this.readOnly, onclick: (/** @type {MouseEvent} */ e) => this.#use(name, e.shiftKey) },
      byName.has(name) && h("kbd", null, byName.get(name)), word(name))),
      names.length > shownNames.length && h("span", { class: "quiet" }, `and ${names.length - shownNames.length} less frequent`),
      h("span", { class: "group" }, h("button", { disabled: this.readOnly, onclick: () => this.#clear() }, h("kbd", null, "⌫"), this.isSpans ? "outside" : "clear"), h("button", { disabled: this.readOnly, onclick: () => this.#beUnsure() }, h("kbd", null, "u"), "unsure"),
        h("button", { class: "main", disabled: this.readOnly, onclick: () => this.#accept() }, h("kbd", null, "↵"), "accept")),
      !this.readOnly && h("form", { class: "add", onsubmit: (/** @type {SubmitEvent} */ e) => this.#addName(e) }, h("input", { name: "name", "aria-label": "New label", placeholder: this.isSpans ? "B-TYPE" : "new label", autocomplete: "off" }), h("button", null, "Add")));
  }

  #drawSearch() {
    if (this.search.childElementCount) {
      /** @type {HTMLSelectElement} */ (this.search.querySelector("select")).value = this.params.queue ?? "doubt";
      return;
    }
    const results = h("ul", { class: "results" });
    const input = h("input", { type: "search", "aria-label": "Search the corpus", placeholder: "Search ( / )", oninput: async (/** @type {Event} */ e) => {
      const q = /** @type {HTMLInputElement} */ (e.target).value;
      const found = await get("/api/search", { q });
      put(results, found.map((/** @type {any} */ f) => h("li", null, h("a", { href: link("label", { ...this.params, i: String(f.sentence) }), onclick: () => put(results) }, word(f.text)))));
    } });
    const order = h("select", { "aria-label": "Order of the queue", onchange: (/** @type {Event} */ e) => this.context.go("label", { ...this.params, queue: /** @type {HTMLSelectElement} */ (e.target).value }) },
      [["doubt", "by doubt"], ["random", "random"], ["file", "in file order"]].map(([value, text]) => h("option", { value, selected: (this.params.queue ?? "doubt") === value }, text)));
    put(this.search, input, order, results);
  }

  stateChanged() {
    const { state } = this.context;
    if (!state) return;
    const { progress, curve, corpus } = state;
    // Where all tokens have a label from the start, the curve is over the trainings.
    const grows = curve.some((p) => p.tokens !== curve[0].tokens);
    const points = (/** @type {"test" | "asked"} */ key) => /** @type {[number, number][]} */ (curve.map((p, i) => [grows ? p.tokens : i + 1, p[key]]).filter(([, y]) => y !== undefined));
    const { done } = progress;
    put(this.side, h("h2", null, "Progress"),
      h("p", { class: "figure" }, done.toLocaleString("en"), h("span", { class: "quiet" }, ` of ${count(progress.sentences, "sentence")}`)),
      h("progress", { max: progress.sentences, value: done, "aria-label": "Sentences done" }),
      h("h2", null, "Learning curve"),
      curve.length > 0 && (points("test").length > 0 || points("asked").length > 0) && lineChart([{ name: "test", points: points("test") }, { name: "random sentences", points: points("asked"), kind: "second" }],
        { x: grows ? "tokens" : "trainings", y: (v) => percent(v), span: 0.02, most: 1, label: `Accuracy by number of ${grows ? "labelled tokens" : "trainings"}` }),
      h("p", { class: "quiet" }, points("asked").length ? "Dashed: the share of predictions you left unchanged in sentences drawn at random." : state.has_test ? "Accuracy on held-out sentences." : "Pass --test FILE for the accuracy on held-out sentences." + (grows ? " Without it, the curve begins with a sentence drawn at random." : "")),
      state.failure && h("p", { class: "bad" }, state.failure),
      h("div", { class: "tools" }, h("button", { onclick: () => this.#retrain() }, h("kbd", null, "r"), "Retrain"),
        state.model?.path && !corpus.read_only && h("button", { onclick: () => this.#saveModel() }, `Save ${state.model.path}`)),
      corpus.is_practice && h("p", { class: "quiet" }, "A practice copy: it is deleted when the studio ends."),
      corpus.lost.length > 0 && h("div", { class: "bad" }, h("h2", null, "Edits that do not fit"), h("ul", null, corpus.lost.map((l) => h("li", null, `${l.tokens[l.token] ?? ""} ${l.old} → ${l.new}: ${l.reason}`)))));
    this.#drawBar();
  }

  /** First and last selected token. @returns {[number, number]} */
  get selection() {
    const other = this.anchor ?? this.token;
    return [Math.min(other, this.token), Math.max(other, this.token)];
  }

  /** Select by mouse. The browser would move the focus first, and the selection would lose its beginning. @param {number} t @param {MouseEvent} event */
  #point(t, event) {
    if (event.button !== 0) return;
    event.preventDefault();
    this.#select(t, event.shiftKey);
  }

  /** @param {number} t @param {boolean} extend */
  #select(t, extend) {
    const sentence = this.sentence;
    if (!sentence || t < 0 || t >= sentence.tokens.length) return;
    if (extend) this.anchor ??= this.token;
    else this.anchor = null;
    this.token = t;
    this.draw();
    document.getElementById(`token-${t}`)?.focus();
  }

  /** Edits are sent one after another, each for the version that the one before it left. @param {(sentence: SentenceView) => any} body @param {() => void} [then] */
  #edit(body, then) {
    this.busy = this.busy.then(async () => {
      const sentence = this.sentence;
      if (!sentence || this.readOnly) return;
      const sent = body(sentence);
      try {
        const changed = await edit(sentence, sent);
        if (this.sentence?.index === sentence.index) {
          this.sentence = { ...changed, is_random: sentence.is_random };
          if (then) then();
          else this.#redraw();
        }
      } catch (error) {
        if (error instanceof ApiError && error.status === 409) this.#showConflict(error.body, sent);
        else this.context.fail(error);
      }
    });
    return this.busy;
  }

  /** Draw again and keep the focus on the token. */
  #redraw() {
    const focused = this.tokens.contains(document.activeElement);
    this.draw();
    if (focused) document.getElementById(`token-${this.token}`)?.focus();
  }

  /** @param {string} name @param {boolean} everywhere */
  #use(name, everywhere) {
    if (!this.sentence) return;
    if (everywhere && !this.isSpans) {
      this.#previewSame(name);
      return;
    }
    const [first, last] = this.selection;
    for (let t = first; t <= last; t++) this.unsure.delete(t);
    const t = this.token;
    if (this.isSpans) this.#edit(() => ({ span: { start: first, end: last + 1, type: name } }), () => this.#advance(last));
    else this.#edit(() => ({ labels: Object.fromEntries(range(first, last).map((k) => [k, name])) }), () => this.#advance(Math.max(t, last)));
  }

  /** @param {number} t */
  #advance(t) {
    this.anchor = null;
    this.token = Math.min(t + 1, (this.sentence?.tokens.length ?? 1) - 1);
    this.draw();
    document.getElementById(`token-${this.token}`)?.focus();
  }

  #clear() {
    const [first, last] = this.selection;
    if (this.isSpans) this.#edit(() => ({ span: { start: first, end: last + 1, type: null } }));
    else this.#edit(() => ({ labels: Object.fromEntries(range(first, last).map((k) => [k, null])) }));
  }

  #beUnsure() {
    const [first, last] = this.selection;
    range(first, last).forEach((t) => this.unsure.add(t));
    this.#edit(() => ({ labels: Object.fromEntries(range(first, last).map((k) => [k, null])) }), () => this.#advance(last));
  }

  #accept() {
    this.#edit(() => ({ accept: true, leave: [...this.unsure] }), () => this.#goOn());
  }

  async #goOn() {
    try {
      const queue = await get("/api/queue", { n: 1, kind: this.params.queue ?? "doubt", skip: this.sentence?.index });
      if (!queue.length) {
        notify("Every sentence is labelled.", "good");
        return;
      }
      this.#open(queue[0]);
      this.context.go("label", { ...this.params, i: String(queue[0].index), t: undefined });
      document.getElementById("token-0")?.focus();
    } catch (error) {
      this.context.fail(error);
    }
  }

  /** @param {string} name */
  async #previewSame(name) {
    const sentence = /** @type {SentenceView} */ (this.sentence);
    const token = this.token;
    try {
      const found = await get("/api/same", { sentence: sentence.index, token });
      const apply = async () => {
        try {
          const done = await post("/api/everywhere", { sentence: sentence.index, token, label: name });
          put(this.same);
          this.sentence = { ...done.sentence, is_random: sentence.is_random };
          this.#redraw();
          notify(`${count(done.changed, "label")} changed. Ctrl+Z takes all of them back.`, "good");
        } catch (error) {
          this.context.fail(error);
        }
      };
      put(this.same, h("section", { class: "panel" }, h("h2", null, word(found.word), ` ${shown(found.old) || "open"} → ${name}`),
        h("p", null, `${count(found.total, "token")} in the corpus.`),
        h("ul", { class: "contexts" }, found.rows.map((/** @type {any} */ row) => h("li", null, row.before.map((/** @type {string} */ w) => [word(w), " "]).flat(), h("b", null, word(row.word)), " ", row.after.map((/** @type {string} */ w) => [word(w), " "]).flat()))),
        h("div", { class: "tools" }, h("button", { class: "main", onclick: apply }, `Change all ${found.total}`), h("button", { onclick: () => put(this.same) }, "Cancel"))));
      /** @type {HTMLElement | null} */ (this.same.querySelector("button.main"))?.focus();
    } catch (error) {
      this.context.fail(error);
    }
  }

  /** @param {{theirs: SentenceView, yours: Record<string, string | null>}} body @param {any} sent */
  #showConflict(body, sent) {
    const mine = Object.entries(body.yours ?? {}).map(([t, label]) => `${body.theirs.tokens[Number(t)]}: ${label ?? "open"}`).join(", ");
    const take = () => this.#open(body.theirs, this.token);
    const again = () => {
      this.#open(body.theirs, this.token);
      this.#edit(() => sent);
    };
    put(this.conflict, h("section", { class: "panel bad", role: "alert" }, h("h2", null, "Changed in another tab"),
      h("p", null, "There: " + body.theirs.labels.map((y, t) => `${body.theirs.tokens[t]}/${shown(y) || "?"}`).join(" ")), h("p", null, "Yours: " + (mine || "accepted as shown")),
      h("div", { class: "tools" }, h("button", { onclick: take }, "Keep theirs"), h("button", { class: "main", onclick: again }, "Apply mine to it"))));
  }

  /** @param {SubmitEvent} event */
  async #addName(event) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const name = String(new FormData(form).get("name") ?? "").trim();
    if (!name) return;
    try {
      await post("/api/names", { name });
      form.reset();
    } catch (error) {
      this.context.fail(error);
    }
  }

  async #retrain() {
    await post("/api/retrain").catch((error) => this.context.fail(error));
  }

  async #saveModel() {
    try {
      notify(`Saved ${(await post("/api/save-model")).name}.`, "good");
    } catch (error) {
      this.context.fail(error);
    }
  }

  /** @param {import("./api.js").ServerEvent} event */
  async event(event) {
    const sentence = this.sentence;
    try {
      if (event.kind === "model" || (event.kind === "edit" && sentence && event.sentences.includes(sentence.index))) {
        await this.busy;
        if (sentence && this.sentence?.index === sentence.index) {
          const fresh = await get(`/api/sentences/${sentence.index}`);
          if (this.sentence?.index === sentence.index) {
            this.sentence = { ...fresh, is_random: sentence.is_random };
            this.#redraw();
          }
        }
      }
      if (event.kind === "model") {
        await this.refreshQueue();
        this.tokens.dataset.model = String(event.number);
      }
    } catch (error) {
      this.context.fail(error);
    }
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.#select(this.token + (event.key === "ArrowRight" ? 1 : -1), event.shiftKey || this.anchor !== null);
    else if (event.key === "Enter" && !(event.target instanceof HTMLButtonElement || event.target instanceof HTMLAnchorElement)) this.#accept();
    else if (event.key === "Backspace") this.#clear();
    else if (event.key === " " && !(event.target instanceof HTMLButtonElement)) {
      this.anchor = this.anchor === null ? this.token : null;
      this.#redraw();
    } else if (event.key === "u") this.#beUnsure();
    else if (event.key === "r") this.#retrain();
    else if (event.key === "/") /** @type {HTMLElement | null} */ (this.search.querySelector("input"))?.focus();
    else if (event.key === "Escape") put(this.same);
    else {
      const name = this.keys.get(plainKey(event));
      if (name === undefined) return false;
      this.#use(name, event.shiftKey);
    }
    return true;
  }
}

/** @param {import("./api.js").Label | undefined} label */
const shown = (label) => (label === null || label === undefined ? "" : Array.isArray(label) ? `{${label.join(",")}}` : label);

/** @param {number} first @param {number} last */
const range = (first, last) => Array.from({ length: last - first + 1 }, (_, k) => first + k);
