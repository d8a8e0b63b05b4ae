// @ts-check
// A trellis in a cell of a notebook. There is no server: the scores are in the cell, and a click on a
// node computes the best path and all probabilities anew, here.
import { run, scoresOf, transitions } from "./recursions.js";

/** @typedef {import("./recursions.js").Tables} Tables */

const ROW = 30;
const TOP = 34;
const LIKELY = 0.01; // probability of a label that is shown, and of a transition that is drawn
const SHOWN = 0.05; // probability that is written into its node
const MANY = 20; // labels, above which only the likely ones are shown

/** @param {string} name @param {Record<string, string | number>} [attributes] @param {string} [text] */
function svg(name, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}

/**
 * Best path, probabilities of nodes [T][Y] and of transitions [t, from, to, probability].
 * @param {Tables} x
 */
export function solve(x) {
  const best = run(x, "max");
  const { alpha, beta, total } = run(x, "sum");
  const gamma = alpha.map((row, t) => row.map((a, y) => Math.exp(a + beta[t][y] - total)));
  /** @type {number[][]} */
  const moves = [];
  for (let t = 1; t < x.emit.length; t++) {
    const trans = transitions(x, t);
    x.labels.forEach((_, a) => {
      if (gamma[t - 1][a] < LIKELY) return;
      x.labels.forEach((_, b) => {
        const p = Math.exp(alpha[t - 1][a] + trans[a][b] + x.emit[t][b] + beta[t][b] - total);
        if (p >= LIKELY) moves.push([t, a, b, p]);
      });
    });
  }
  return { path: best.path, gamma, moves, prob: Math.exp(best.total - total) };
}

/** Forbid all labels but the forced ones. @param {Tables} x @param {Map<number, number>} forced @returns {Tables} */
export function constrain(x, forced) {
  const emit = x.emit.map((row, t) => (forced.has(t) ? row.map((e, y) => (y === forced.get(t) ? e : -Infinity)) : row));
  return { ...x, emit };
}

/** @param {HTMLElement} root @param {any} data the scores, with null for −∞ */
export function showCell(root, data) {
  const x = /** @type {Tables} */ ({ ...data, emit: scoresOf(data.emit), trans: scoresOf(data.trans), start: scoresOf(data.start), stop: scoresOf(data.stop) });
  /** @type {Map<number, number>} */
  const forced = new Map();
  const free = solve(x);
  const rows = x.labels.map((_, y) => y).filter((y) => x.labels.length <= MANY || free.path?.includes(y) || free.gamma.some((row) => row[y] >= LIKELY));
  const rail = 24 + 8 * Math.max(...rows.map((y) => x.labels[y].length));
  const widths = x.tokens.map((w) => Math.min(Math.max(62, 9 * w.length + 18), 170));
  const centres = widths.map((w, t) => rail + widths.slice(0, t).reduce((a, b) => a + b, 0) + w / 2);
  const place = new Map(rows.map((y, k) => [y, TOP + ROW * (k + 0.5)]));
  const width = rail + widths.reduce((a, b) => a + b, 0);

  function draw() {
    const { path, gamma, moves, prob } = solve(constrain(x, forced));
    if (!path) return; // no path with these labels: the picture stays
    const picture = svg("svg", { width, height: TOP + ROW * rows.length + 8, role: "group", "aria-label": "Trellis: labels down, tokens across" });
    const at = (/** @type {number} */ t, /** @type {number} */ y) => `${centres[t]} ${place.get(y)}`;
    const curve = (/** @type {number} */ t, /** @type {number} */ a, /** @type {number} */ b) => {
      const middle = (centres[t - 1] + centres[t]) / 2;
      return `M${at(t - 1, a)}C${middle} ${place.get(a)} ${middle} ${place.get(b)} ${at(t, b)}`;
    };
    for (const [t, a, b, p] of moves) if (place.has(a) && place.has(b)) picture.append(svg("path", { d: curve(t, a, b), class: "move", "stroke-width": 0.6 + 2 * p, opacity: 0.15 + 0.4 * p }));
    picture.append(svg("path", { d: path.slice(1).map((y, i) => curve(i + 1, path[i], y)).join(""), class: "move best" }));
    rows.forEach((y) => picture.append(svg("text", { x: 4, y: /** @type {number} */ (place.get(y)) + 4, class: "quiet" }, x.labels[y])));
    x.tokens.forEach((word, t) => {
      const shown = word.length > 16 ? word.slice(0, 15) + "…" : word;
      picture.append(svg("text", { x: centres[t], y: 20, class: "word" }, shown));
      rows.forEach((y) => picture.append(node(t, y, gamma[t][y], path[t] === y)));
    });
    const focused = root.querySelector(":focus")?.getAttribute("data-at");
    const line = document.createElement("p");
    line.textContent = path.map((y, t) => `${x.tokens[t]} ${x.labels[y]}`).join("  ") + `   probability ${prob.toFixed(3)}`;
    line.setAttribute("aria-live", "polite");
    const wide = document.createElement("div");
    wide.append(picture);
    root.replaceChildren(wide, line);
    if (forced.size) {
      const button = document.createElement("button");
      button.textContent = `Release ${forced.size} forced`;
      button.addEventListener("click", () => {
        forced.clear();
        draw();
      });
      line.append("   ", button);
    }
    if (focused) /** @type {SVGElement | null} */ (root.querySelector(`[data-at="${focused}"]`))?.focus();
  }

  /** @param {number} t @param {number} y @param {number} p @param {boolean} isBest */
  function node(t, y, p, isBest) {
    const kind = (isBest ? " best" : "") + (forced.get(t) === y ? " forced" : "");
    const group = svg("g", { class: "node" + kind, tabindex: 0, role: "button", "data-at": `${t}.${y}`, "aria-pressed": String(forced.get(t) === y),
      "aria-label": `${x.tokens[t]}, ${x.labels[y]}: ${p.toFixed(3)}` });
    const [cx, cy] = [centres[t], /** @type {number} */ (place.get(y))];
    group.append(svg("title", {}, `${x.labels[y]} ${p.toFixed(4)}`), svg("rect", { x: cx - 24, y: cy - ROW / 2, width: 48, height: ROW }), svg("circle", { cx, cy, r: isBest || p >= SHOWN ? 13 : Math.max(2, 13 * Math.sqrt(p)) }));
    if (isBest || p >= SHOWN) group.append(svg("text", { x: cx, y: cy + 4 }, p >= 0.995 ? "1" : p.toFixed(2).replace(/^0/, "")));
    const toggle = () => {
      if (forced.get(t) === y) forced.delete(t);
      else forced.set(t, y);
      if (!solve(constrain(x, forced)).path) forced.delete(t); // this label cannot stand here
      draw();
    };
    group.addEventListener("click", toggle);
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation(); // the notebook has its own Enter
      toggle();
    });
    return group;
  }

  draw();
}
