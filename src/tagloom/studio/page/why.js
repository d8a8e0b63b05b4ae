// @ts-check
// Why a token has its label: the terms in which the best path differs from its strongest rival.
import { h, prob, score, word } from "./dom.js";

/** @param {import("./api.js").WhyView} why @param {string[]} tokens @returns {HTMLElement} */
export function whyPanel(why, tokens) {
  const title = h("h2", null, h("span", { class: "quiet" }, "Why "), word(why.token), h("span", { class: "quiet" }, " is "), word(why.label));
  if (why.runner_up === null) return h("section", { class: "panel" }, title, h("p", null, "No other label is possible here."));
  const most = Math.max(...why.reasons.map((r) => Math.abs(r.value)), 1e-9);
  const rows = why.reasons.map((r) =>
    h("tr", null, h("td", { class: "number" }, signed(r.value)), h("td", { class: "bar" }, bar(r.value / most)), h("td", null, word(r.name)),
      h("td", null, r.label), h("td", null, r.rival), h("td", null, r.position < tokens.length ? word(tokens[r.position]) : "end")));
  if (why.others.n) {
    rows.push(h("tr", null, h("td", { class: "number" }, signed(why.others.value)), h("td"), h("td", { colspan: "4", class: "quiet" }, `${why.others.n} smaller terms`)));
  }
  const head = ["by", "", "what", "best path", "runner-up", "at"].map((name) => h("th", { scope: "col" }, name || h("span", { class: "unseen" }, "strength")));
  return h("section", { class: "panel" }, title,
    h("p", null, `${why.label} ${prob(why.prob)} against ${why.runner_up} ${prob(why.runner_up_prob)}`,
      h("span", { class: "quiet" }, why.margin === null ? "" : `, ahead by ${score(why.margin)}`)),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Terms that decide" }, h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, rows))));
}

/** @param {number} value */
const signed = (value) => (value >= 0 ? "+" : "") + score(value, 2);

/** @param {number} share */
function bar(share) {
  const kind = share >= 0 ? "for" : "against";
  return h("span", { class: `strength ${kind}`, style: { "--share": Math.abs(share).toFixed(3) } });
}
