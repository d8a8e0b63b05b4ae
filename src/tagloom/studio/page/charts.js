// @ts-check
// Small charts as SVG.
import { s } from "./dom.js";

/**
 * Lines over x, with the last value written at their end.
 * @param {{name: string, points: [number, number][], kind?: string}[]} lines
 * @param {{x: string, y: (value: number) => string, label: string, width?: number, height?: number, span?: number}} options span: the least range of y
 */
export function lineChart(lines, options) {
  const { width = 320, height = 150 } = options;
  const [left, right, top, bottom] = [44, 52, 10, 24];
  const all = lines.flatMap((line) => line.points);
  const chart = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": options.label });
  if (!all.length) return chart;
  const [x0, x1] = range(all.map((p) => p[0]));
  let [y0, y1] = range(all.map((p) => p[1]));
  const missing = Math.max(0, (options.span ?? 1e-3) - (y1 - y0));
  [y0, y1] = [y0 - missing / 2, y1 + missing / 2];
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
