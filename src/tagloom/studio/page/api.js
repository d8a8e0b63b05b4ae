// @ts-check
// Requests to the server of this page, and its events.

/** @typedef {string | null | string[]} Label */
/** @typedef {{index: number, tokens: string[], labels: Label[], version: string, accepted: boolean, line: number | null,
 *   predicted: string[] | null, probs?: number[], doubt?: number, is_random?: boolean}} SentenceView */
/** @typedef {{tokens: string[], labels: string[], path: number[], gamma: number[][],
 *   moves: number[][], nbest: {labels: string[], prob: number}[], log_z: number, score: number,
 *   prob: number, n_hidden: number}} TrellisView */
/** @typedef {{position: number, name: string, label: string, rival: string, weight: number, rival_weight: number, value: number}} Reason */
/** @typedef {{position: number, token: string, label: string, prob: number, runner_up: string | null, runner_up_prob: number,
 *   rival: string[], margin: number | null, reasons: Reason[], others: {n: number, value: number}}} WhyView */
/** @typedef {{tokens: number, test?: number, asked?: number}} CurvePoint */
/** @typedef {{model: {kind: string, number: number, seconds: number, path: string | null} | null, failure: string | null,
 *   corpus: {name: string, is_practice: boolean, sentences: number, tokens: number, label: string | null, read_only: boolean,
 *     owner: string | null, unsaved: number, can_redo: boolean,
 *     lost: {tokens: string[], token: number, old: string, new: string, reason: string}[]},
 *   has_test: boolean, has_other: boolean, labels: string[], frequent: string[], n_labels: number, scheme: string | null, types: string[],
 *   progress: {labelled: number, accepted: number, done: number, sentences: number}, curve: CurvePoint[]}} State */
/** @typedef {{alpha: Record<string, number | null>, beta: Record<string, number | null>}} NodesView */
/** @typedef {{kind: string, [key: string]: any}} ServerEvent */

export class ApiError extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    super(body?.detail ?? `The server answered ${status}.`);
    this.status = status;
    this.body = body;
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>}
 */
async function request(method, path, body, headers = {}) {
  /** @type {RequestInit} */
  const options = { method, headers: { ...headers } };
  if (method !== "GET") {
    options.body = JSON.stringify(body ?? {});
    Object.assign(/** @type {any} */ (options.headers), { "Content-Type": "application/json", "X-Tagloom-Studio": "1" });
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new ApiError(0, { detail: "The server does not answer. Is tagloom studio still running?" });
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new ApiError(response.status, answer);
  return answer;
}

/** @param {string} path @param {Record<string, any>} [query] */
export function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([k, v]) => [k, String(v)])).toString();
  return request("GET", path + (text ? "?" + text : ""));
}

/** @param {string} path @param {any} [body] */
export const post = (path, body) => request("POST", path, body);

/** @param {SentenceView} sentence @param {any} body @returns {Promise<SentenceView>} */
export const edit = (sentence, body) => request("PUT", `/api/sentences/${sentence.index}`, body, { "If-Match": `"${sentence.version}"` });

/** @param {(event: ServerEvent) => void} listener @param {(isOpen: boolean) => void} connection */
export function listen(listener, connection) {
  const source = new EventSource("/api/events");
  source.onmessage = (message) => listener(JSON.parse(message.data));
  source.onopen = () => connection(true);
  source.onerror = () => connection(false);
}

/**
 * Keep only the answer to the last question: earlier ones that arrive late resolve to null.
 * @template T
 * @param {(...args: any[]) => Promise<T>} ask
 * @returns {(...args: any[]) => Promise<T | null>}
 */
export function latest(ask) {
  let number = 0;
  return async (...args) => {
    const mine = ++number;
    const answer = await ask(...args);
    return mine === number ? answer : null;
  };
}
