// @ts-check
// Elements without a framework. Text reaches the page as text only: nothing here parses HTML.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element. Properties that start with "on" are listeners, "style" is an object (set through
 * the style object: the content security policy blocks style attributes), the rest are attributes.
 * @param {string} tag
 * @param {Record<string, any> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  set(element, props ?? {});
  fill(element, children.flat());
  return element;
}

/**
 * Make an SVG element.
 * @param {string} tag
 * @param {Record<string, any> | null} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, props ?? {});
  fill(element, children);
  return element;
}

/**
 * @param {HTMLElement | SVGElement} element
 * @param {Record<string, any>} props
 */
export function set(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, String(v));
    else if (value === false || value === null || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
export function fill(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replace the children of an element.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function put(element, ...children) {
  element.replaceChildren();
  fill(element, children.flat());
}

// Characters that change or hide their neighbours: controls, directions, marks without a glyph.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/**
 * Split a token into pieces of text, and codes of characters that cannot be seen.
 * @param {string} token
 * @returns {{text: string, isCode: boolean}[]}
 */
export function pieces(token) {
  /** @type {{text: string, isCode: boolean}[]} */
  const result = [];
  let at = 0;
  for (const match of token.matchAll(HIDDEN)) {
    if (match.index > at) result.push({ text: token.slice(at, match.index), isCode: false });
    const code = /** @type {number} */ (match[0].codePointAt(0));
    result.push({ text: "U+" + code.toString(16).toUpperCase().padStart(4, "0"), isCode: true });
    at = match.index + match[0].length;
  }
  if (at < token.length) result.push({ text: token.slice(at), isCode: false });
  return result.length ? result : [{ text: "∅", isCode: true }];
}

/**
 * Show a token: isolated from its neighbours, with visible codes for hidden characters.
 * @param {string} token
 * @returns {HTMLElement}
 */
export function word(token) {
  return h("bdi", { class: "word" }, pieces(token).map((p) => (p.isCode ? h("span", { class: "code" }, p.text) : p.text)));
}

/** @param {number | null | undefined} p @param {number} [digits] */
export function prob(p, digits = 2) {
  if (p === null || p === undefined) return "–";
  if (p > 0 && p < 0.5 * 10 ** -digits) return "<" + (10 ** -digits).toFixed(digits).replace(/^0/, "");
  return p.toFixed(digits).replace(/^0\./, ".");
}

/** A number with a minus sign, and −∞ for a forbidden score. @param {number | null} x @param {number} [digits] */
export function score(x, digits = 2) {
  if (x === null || x === -Infinity) return "−∞";
  const text = Math.abs(x) < 1e-12 ? "0" : Number.isInteger(x) ? String(x) : x.toFixed(digits);
  return text.replace("-", "−");
}

/** @param {number} n @param {string} noun */
export function count(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

/** @param {number} share */
export function percent(share) {
  return (100 * share).toFixed(1) + " %";
}

/** Call a function when the next frame is on the screen. @param {() => void} action */
export function afterPaint(action) {
  requestAnimationFrame(() => setTimeout(action));
}

/** Say something to people who use a screen reader. @param {string} text */
export function say(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}

/** @param {string} text @param {"error" | "good"} [kind] */
export function notify(text, kind = "error") {
  const notice = document.getElementById("notice");
  if (!notice) return;
  put(notice, h("p", { class: kind }, text, h("button", { "aria-label": "Close this message", onclick: () => put(notice) }, "×")));
  if (kind === "good") setTimeout(() => notice.textContent?.startsWith(text) && put(notice), 4000);
}
