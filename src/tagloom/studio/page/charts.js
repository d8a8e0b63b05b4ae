// @ts-check
// Small charts as SVG.
import { s } from "./dom.js";

/**
 * Lines over x, with the last value written at their end.
 * @param {{name: string, points: [number, number][], kind?: string}[]} lines
 * @param {{x: string, y: (value: number) => string, label: string, width?: number, height?: number, span?: number, most?: number}} options span: the least range of y; most: its upper bound
 */
export function lineChart(lines, options) {
  const { width = 320, height = 150 } = options;
  const [left, right, top, bottom] = [50, 60, 10, 24];
  const all = lines.flatMap((line) => line.points);
  const chart = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": options.label });
  if (!all.length) return chart;
  const [x0, x1] = range(all.map((p) => p[0]));
  let [y0, y1] = range(all.map((p) => p[1]));
  const missing = Math.max(0, (options.span ?? 1e-3) - (y1 - y0));
  [y0, y1] = [y0 - missing / 2, y1 + missing / 2];
  const over = Math.max(0, y1 - (options.most ?? Infinity));
  [y0, y1] = [y0 - over, y1 - over];
  const px = (/** @type {number} */ x) => left + (x1 === x0 ? 0.5 : (x - x0) / (x1 - x0)) * (width - left - right);
  const py = (/** @type {number} */ y) => height - bottom - ((y - y0) / (y1 - y0)) * (height - top - bottom);
  for (const y of [y0, y1]) {
    chart.append(s("path", { d: `M${left} ${py(y)}H${width - right}`, class: "axis" }), s("text", { x: left - 6, y: py(y) + 4, class: "end" }, options.y(y)));
  }
  chart.append(s("text", { x: left, y: height - 6 }, x0.toLocaleString("en")));
  if (x1 !== x0) chart.append(s("text", { x: width - right, y: height - 6, class: "end" }, `${x1.toLocaleString("en")} ${options.x}`));
  for (const line of lines) {
    if (!line.points.length) continue;
    const d = line.points.map(([x, y], i) => `${i ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("");
    const [x, y] = line.points[line.points.length - 1];
    chart.append(s("path", { d, class: `line ${line.kind ?? ""}` }), s("circle", { cx: px(x), cy: py(y), r: 3, class: line.kind ?? "" }),
      s("text", { x: px(x) + 7, y: py(y) + 4, class: "strong" }, options.y(y)));
  }
  return chart;
}

/** @param {number[]} values @returns {[number, number]} */
const range = (values) => [Math.min(...values), Math.max(...values)];

/**
 * Confidence against accuracy: bars that should touch the diagonal.
 * @param {{low: number, high: number, n: number, confidence: number, accuracy: number}[]} bins
 */
export function reliabilityChart(bins) {
  const size = 260;
  const [left, bottom] = [36, 26];
  const px = (/** @type {number} */ x) => left + x * (size - left - 8);
  const py = (/** @type {number} */ y) => size - bottom - y * (size - bottom - 8);
  const chart = s("svg", { viewBox: `0 0 ${size} ${size}`, class: "chart square", role: "img", "aria-label": "Reliability: share of correct labels by their probability" });
  for (const bin of bins.filter((b) => b.n)) {
    const top = py(bin.accuracy);
    chart.append(s("rect", { x: px(bin.low) + 1, y: top, width: px(bin.high) - px(bin.low) - 2, height: py(0) - top, class: "column" },
      s("title", null, `${bin.n} tokens, probability ${bin.confidence.toFixed(3)}, correct ${bin.accuracy.toFixed(3)}`)));
  }
  chart.append(s("path", { d: `M${px(0)} ${py(0)}L${px(1)} ${py(1)}`, class: "axis strong" }));
  for (const v of [0, 0.5, 1]) {
    chart.append(s("text", { x: px(v), y: size - 8, class: v ? "end" : "" }, String(v)), s("text", { x: left - 6, y: py(v) + 4, class: "end" }, String(v)));
  }
  return chart;
}

const LEAST_ARROW = 0.08; // probability of a transition that is drawn

/**
 * The states of a hidden Markov model on a circle, with arrows for their transitions.
 * @param {{name: string, share: number}[]} states
 * @param {number[][]} trans probabilities, from → to
 */
export function stateGraph(states, trans) {
  const size = 460;
  const [centre, ring] = [size / 2, size / 2 - 62];
  const most = Math.max(...states.map((state) => state.share), 1e-9);
  const discs = states.map((state, i) => {
    const angle = (2 * Math.PI * i) / states.length - Math.PI / 2;
    const [dx, dy] = [Math.cos(angle), Math.sin(angle)];
    return { x: centre + ring * dx, y: centre + ring * dy, dx, dy, r: 5 + 13 * Math.sqrt(state.share / most) };
  });
  const chart = s("svg", { viewBox: `0 0 ${size} ${size}`, class: "chart graph", role: "img", "aria-label": `Transitions between ${states.length} states` });
  trans.forEach((row, i) => row.forEach((p, j) => {
    if (p < LEAST_ARROW || !discs[i] || !discs[j]) return;
    const [a, b] = [discs[i], discs[j]];
    const title = s("title", null, `${states[i].name} → ${states[j].name} ${p.toFixed(3)}`);
    const look = { class: "arrow", "stroke-width": (0.6 + 4.5 * p).toFixed(2), opacity: (0.25 + 0.6 * p).toFixed(2) };
    if (i === j) {
      const [x, y, r] = [a.x - a.dx * (a.r + 8), a.y - a.dy * (a.r + 8), 9];
      chart.append(s("circle", { ...look, cx: x, cy: y, r }, title));
      return;
    }
    // Both directions bend to their right, so that they do not cover each other.
    const [mx, my] = [(a.x + b.x) / 2, (a.y + b.y) / 2];
    const [cx, cy] = [mx + 0.16 * (centre - mx) - 0.14 * (b.y - a.y), my + 0.16 * (centre - my) + 0.14 * (b.x - a.x)];
    const d = Math.hypot(b.x - cx, b.y - cy) || 1;
    const [ux, uy] = [(b.x - cx) / d, (b.y - cy) / d];
    const [x, y] = [b.x - ux * (b.r + 2), b.y - uy * (b.r + 2)];
    const w = 3 + 4 * p;
    chart.append(s("path", { ...look, d: `M${a.x.toFixed(1)} ${a.y.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${(x - ux * w).toFixed(1)} ${(y - uy * w).toFixed(1)}` }, title),
      s("path", { class: "head", opacity: look.opacity, d: `M${x} ${y}L${x - ux * 2 * w - uy * w} ${y - uy * 2 * w + ux * w}L${x - ux * 2 * w + uy * w} ${y - uy * 2 * w - ux * w}Z` }));
  }));
  discs.forEach(({ x, y, dx, dy, r }, i) => {
    const anchor = Math.abs(dx) < 0.3 ? "middle" : dx > 0 ? "start" : "end";
    const name = states[i].name.length > 12 ? states[i].name.slice(0, 11) + "…" : states[i].name;
    chart.append(s("circle", { cx: x, cy: y, r }, s("title", null, `${states[i].name}: ${(100 * states[i].share).toFixed(1)} %`)),
      s("text", { x: x + dx * (r + 6), y: y + dy * (r + 10) + 4, class: "strong", "text-anchor": anchor }, name));
  });
  return chart;
}
