// @ts-check
// Viterbi, forward and backward over small tables, cell by cell; the same rules as tagloom.Trellis:
// -Infinity is forbidden, ties go to the first label.

/** @typedef {{tokens: string[], labels: string[], emit: number[][], trans: number[][] | number[][][], start: number[], stop: number[]}} Tables */
/** @typedef {"max" | "sum"} Mode */
/** @typedef {{from: number, terms: number[], value: number}} Candidate */

/** @param {number[]} values */
export function logSumExp(values) {
  const most = Math.max(-Infinity, ...values);
  if (most === -Infinity) return -Infinity;
  return most + Math.log(values.reduce((sum, x) => sum + Math.exp(x - most), 0));
}

/** The first largest. @param {number[]} values */
export function argMax(values) {
  let best = 0;
  for (let k = 1; k < values.length; k++) if (values[k] > values[best]) best = k;
  return best;
}

/** The transitions into position t. @param {Tables} x @param {number} t @returns {number[][]} */
export function transitions(x, t) {
  return /** @type {number[][]} */ (Array.isArray(x.trans[0]?.[0]) ? x.trans[t] : x.trans);
}

/** @param {Mode} mode @param {number[]} values */
const combine = (mode, values) => (mode === "max" ? Math.max(-Infinity, ...values) : logSumExp(values));

/**
 * What a cell of the forward table combines.
 * @param {Tables} x @param {number[][]} table the cells before it @param {number} t @param {number} y
 * @returns {Candidate[]}
 */
export function forwardCandidates(x, table, t, y) {
  if (t === 0) return [{ from: -1, terms: [x.start[y], x.emit[0][y]], value: x.start[y] + x.emit[0][y] }];
  return x.labels.map((_, p) => {
    const terms = [table[t - 1][p], transitions(x, t)[p][y], x.emit[t][y]];
    return { from: p, terms, value: terms[0] + terms[1] + terms[2] };
  });
}

/**
 * What a cell of the backward table combines.
 * @param {Tables} x @param {number[][]} table the cells after it @param {number} t @param {number} y
 * @returns {Candidate[]}
 */
export function backwardCandidates(x, table, t, y) {
  const T = x.emit.length;
  if (t === T - 1) return [{ from: -1, terms: [x.stop[y]], value: x.stop[y] }];
  return x.labels.map((_, q) => {
    const terms = [transitions(x, t + 1)[y][q], x.emit[t + 1][q], table[t + 1][q]];
    return { from: q, terms, value: terms[0] + terms[1] + terms[2] };
  });
}

/**
 * Fill both tables.
 * @param {Tables} x @param {Mode} mode
 * @returns {{alpha: number[][], beta: number[][], total: number, path: number[] | null}}
 */
export function run(x, mode) {
  const T = x.emit.length;
  const Y = x.labels.length;
  /** @type {number[][]} */
  const alpha = [];
  /** @type {number[][]} */
  const back = [];
  for (let t = 0; t < T; t++) {
    alpha.push([]);
    back.push([]);
    for (let y = 0; y < Y; y++) {
      const values = forwardCandidates(x, alpha, t, y).map((c) => c.value);
      alpha[t].push(combine(mode, values));
      back[t].push(argMax(values));
    }
  }
  /** @type {number[][]} */
  const beta = Array.from({ length: T }, () => []);
  for (let t = T - 1; t >= 0; t--) {
    for (let y = 0; y < Y; y++) beta[t].push(combine(mode, backwardCandidates(x, beta, t, y).map((c) => c.value)));
  }
  const last = x.stop.map((stop, y) => alpha[T - 1][y] + stop);
  const total = combine(mode, last);
  if (mode === "sum" || total === -Infinity) return { alpha, beta, total, path: null };
  const path = [argMax(last)];
  for (let t = T - 1; t > 0; t--) path.unshift(back[t][path[0]]);
  return { alpha, beta, total, path };
}

/** Put -Infinity where JSON has null. @param {any} values @returns {any} */
export function scoresOf(values) {
  if (Array.isArray(values)) return values.map(scoresOf);
  return values === null ? -Infinity : values;
}
