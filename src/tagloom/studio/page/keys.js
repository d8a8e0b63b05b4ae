// @ts-check
// Which key sets which label: digits first, then letters that no command uses.

const KEYS = "1234567890qwetyiopasdfhjklzxcvbnm";

/**
 * If there are more labels than keys, the most frequent ones get a key.
 * @param {string[]} names @param {string[]} [frequent] the most frequent first
 * @returns {Map<string, string>} key to name
 */
export function keysOf(names, frequent = names) {
  const keyed = names.length > KEYS.length ? names.filter((name) => frequent.indexOf(name) >= 0 && frequent.indexOf(name) < KEYS.length) : names;
  return new Map(keyed.slice(0, KEYS.length).map((name, i) => [KEYS[i], name]));
}

/**
 * The key of an event without Shift: with it, the digit 1 arrives as "!" or "+".
 * @param {{key: string, code: string, shiftKey: boolean}} event
 */
export function plainKey(event) {
  if (event.shiftKey && /^Digit\d$/.test(event.code)) return event.code.slice(5);
  return event.key.toLowerCase();
}

/**
 * Runs of tokens that one span covers, by the letters of BIO-like labels.
 * @param {(string | null | string[])[]} labels
 * @returns {{type: string, start: number, end: number}[]}
 */
export function spansOf(labels) {
  /** @type {{type: string, start: number, end: number}[]} */
  const spans = [];
  labels.forEach((label, t) => {
    if (typeof label !== "string" || label === "O" || label[1] !== "-") return;
    const type = label.slice(2);
    const last = spans[spans.length - 1];
    const goes = last && last.end === t && last.type === type && !"BSU".includes(label[0]) && !"ESL".includes(String(labels[t - 1])[0]);
    if (goes) last.end = t + 1;
    else spans.push({ type, start: t, end: t + 1 });
  });
  return spans;
}
