// @ts-check
// The frame of the page: places and their URLs, the state of model and corpus, keys, events.
import { ApiError, get, listen, post } from "./api.js";
import { afterPaint, count, h, notify, percent, put } from "./dom.js";
import { link, parse } from "./links.js";
import { Try } from "./try.js";

/** @typedef {import("./links.js").Params} Params */
/** @typedef {import("./api.js").State} State */
/** @typedef {{element: HTMLElement, show: (params: Params, part: string) => Promise<void>, event?: (event: import("./api.js").ServerEvent) => void,
 *   key?: (event: KeyboardEvent) => boolean, stateChanged?: () => void}} Place */
/** @typedef {{state: State, go: (place: string, params?: Params, replace?: boolean, part?: string) => void, fail: (error: unknown) => void,
 *   refreshState: () => Promise<void>, save: () => Promise<void>, undo: (redo: boolean) => Promise<void>}} Context */

/** @type {[string, string, () => Promise<any>, string][]} name, title, class, key */
const PLACES = [
  ["try", "Try", async () => Try, "t"],
  ["steps", "Steps", async () => (await import("./steps.js")).Steps, "s"],
  ["label", "Label", async () => (await import("./label.js")).LabelPlace, "l"],
  ["errors", "Errors", async () => (await import("./errors.js")).Errors, "e"],
  ["model", "Model", async () => (await import("./model.js")).ModelPlace, "m"],
];

/** @param {string} id @returns {HTMLElement} */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @type {Map<string, Place>} */
const places = new Map();
let current = "";
let isTraining = false;
let isConnected = true;
let trainedAt = 0;
let routes = 0; // how often an address was followed

/** @type {Context} */
const context = {
  state: /** @type {any} */ (null),
  go(place, params = {}, replace = false, part = "") {
    const target = link(place, params, part);
    const shown = places.get(place);
    if (place !== current || !shown) {
      setAddress(target, replace);
      route();
      return;
    }
    // Within a place the answer comes first: a new address costs the browser more than a new path.
    const number = ++routes;
    shown.show(params, part).then(() => afterPaint(() => number === routes && setAddress(target, replace)));
  },
  fail(error) {
    if (error instanceof ApiError) notify(error.message);
    else throw error;
  },
  async refreshState() {
    try {
      context.state = await get("/api/state");
      drawStatus();
      places.get(current)?.stateChanged?.();
    } catch (error) {
      context.fail(error);
    }
  },
  async save() {
    try {
      const saved = await post("/api/save");
      notify(`Saved ${saved.name}.` + (saved.lost ? ` ${count(saved.lost, "edit")} did not fit the file, which somebody else had changed.` : ""), saved.lost ? "error" : "good");
    } catch (error) {
      context.fail(error);
    }
  },
  async undo(redo) {
    try {
      const done = await post(redo ? "/api/redo" : "/api/undo");
      if (!done.sentences.length) notify(redo ? "Nothing to repeat." : "Nothing to undo since the last save.", "good");
      else if (current === "label") context.go("label", { ...parse(location.hash).params, i: String(done.sentences[0]) });
    } catch (error) {
      context.fail(error);
    }
  },
};

/** @param {string} target @param {boolean} replace */
function setAddress(target, replace) {
  if (target !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", target);
}

async function route() {
  routes += 1;
  const { place, part, params } = parse(location.hash);
  const found = PLACES.find(([name]) => name === place) ?? PLACES[0];
  const name = found[0];
  if (!places.has(name)) {
    const Class = await found[2]();
    places.set(name, new Class(context));
  }
  const shown = /** @type {Place} */ (places.get(name));
  if (current !== name || !byId("place").contains(shown.element)) {
    if (current && byId("notice").querySelector(".error")) put(byId("notice")); // it was about the place before
    current = name;
    put(byId("place"), shown.element);
    document.title = `${found[1]} · tagloom studio`;
    drawNav();
  }
  await shown.show(params, part);
  document.body.dataset.ready = name;
}

function drawNav() {
  put(byId("nav"), PLACES.map(([name, title, , key]) =>
    h("a", { href: link(name), "aria-current": name === current ? "page" : null, title: `g ${key}` }, title)));
}

function drawStatus() {
  const { model, corpus, failure, curve } = context.state;
  const last = curve[curve.length - 1];
  const accuracy = last?.test ?? last?.asked;
  const trained = isTraining ? "training …" : model && model.number && trainedAt ? `retrained in ${model.seconds.toFixed(2)} s` : "";
  put(byId("status"),
    !isConnected && h("span", { class: "bad" }, "not connected"),
    failure && h("span", { class: "bad", title: failure }, "training failed"),
    h("span", { class: "model", "data-number": model?.number ?? "" }, model ? model.kind : "no model yet", accuracy !== undefined && h("b", null, " " + percent(accuracy)), trained && h("span", { class: "quiet" }, " " + trained)),
    corpus.read_only ? h("span", { class: "read-only", title: corpus.owner ? `Open in ${corpus.owner}` : "" }, "read-only")
      : corpus.unsaved > 0 && h("button", { class: "main", onclick: context.save, title: "Ctrl+S" }, `Save ${count(corpus.unsaved, "edit")}`));
}

const KEYS = [
  ["← →", "token", "↑ ↓", "label in the trellis"],
  ["1 2 … a b", "set the label", "Shift + key", "the same everywhere"],
  ["Enter", "accept and next", "Backspace", "clear the label"],
  ["Space", "begin or end a span", "u", "unsure: leave it open"],
  ["Ctrl+Z", "undo", "Ctrl+Shift+Z", "redo"],
  ["Ctrl+S", "save", "r", "retrain now"],
  ["g t s l e m", "go to a place", "/", "search, or the sentence"],
];

function showHelp() {
  const help = /** @type {HTMLDialogElement} */ (byId("help"));
  put(help, h("h2", { id: "help-title" }, "Keys"), h("table", null, h("tbody", null, KEYS.map(([a, b, c, d]) =>
    h("tr", null, h("td", null, h("kbd", null, a)), h("td", null, b), h("td", null, h("kbd", null, c)), h("td", null, d))))),
    h("form", { method: "dialog" }, h("button", { class: "main" }, "Close")));
  help.showModal();
}

/** @param {EventTarget | null} target */
const isTyping = (target) => target instanceof HTMLElement && (target.matches("input, textarea, select") || target.isContentEditable);

let goes = false;
document.addEventListener("keydown", (event) => {
  const control = event.ctrlKey || event.metaKey;
  if (control && event.key.toLowerCase() === "s") {
    event.preventDefault();
    context.save();
    return;
  }
  if (isTyping(event.target) || (/** @type {HTMLDialogElement} */ (byId("help"))).open) return;
  if (control && event.key.toLowerCase() === "z") {
    event.preventDefault();
    context.undo(event.shiftKey);
    return;
  }
  if (control || event.altKey) return;
  if (goes) {
    goes = false;
    const place = PLACES.find(([, , , key]) => key === event.key);
    if (place) {
      event.preventDefault();
      context.go(place[0]);
      return;
    }
  }
  if (event.key === "g") goes = true;
  else if (event.key === "?") showHelp();
  else if (places.get(current)?.key?.(event)) event.preventDefault();
});

window.addEventListener("hashchange", () => route());

/** @param {import("./api.js").ServerEvent} event */
function onEvent(event) {
  if (event.kind === "training") isTraining = true;
  if (event.kind === "model" || event.kind === "failed") isTraining = false;
  if (event.kind === "model") trainedAt = Date.now();
  if (event.kind === "training") drawStatus();
  else context.refreshState();
  places.get(current)?.event?.(event);
}

async function begin() {
  drawNav();
  const route1 = route();
  await context.refreshState();
  await route1;
  listen(onEvent, (isOpen) => {
    isConnected = isOpen;
    if (isOpen) context.refreshState(); // events before the connection are lost
    else drawStatus();
  });
  byId("nav").after(h("button", { class: "help", "aria-label": "Keys", title: "?", onclick: showHelp }, "?"));
}

begin();
