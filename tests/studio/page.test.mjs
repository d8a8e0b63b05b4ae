// Unit tests of the scripts of the page; run by node --test.
import assert from "node:assert/strict";
import { test } from "node:test";

const folder = new URL("../../src/tagloom/studio/page/", import.meta.url);
const { link, parse } = await import(new URL("links.js", folder).href);
const { keysOf, plainKey, spansOf } = await import(new URL("keys.js", folder).href);
const { run, logSumExp } = await import(new URL("recursions.js", folder).href);
const { pieces, prob, score } = await import(new URL("dom.js", folder).href);
const { edits } = await import(new URL("steps.js", folder).href);
const { latest } = await import(new URL("api.js", folder).href);

test("a URL keeps everything", () => {
  const params = { text: "100 % & more? = #1 + é\u202e", force: "2:A,3:B" };
  assert.deepEqual(parse(link("try", params, "a/b")), { place: "try", part: "a/b", params });
  assert.deepEqual(parse(""), { place: "try", part: "", params: {} });
  assert.equal(parse("#/try?text=%").params.text, "%");
});

test("keys are digits, then letters that no command uses", () => {
  const keys = keysOf(Array.from({ length: 17 }, (_, i) => `L${i}`));
  assert.equal(keys.get("1"), "L0");
  assert.equal(keys.get("0"), "L9");
  assert.equal(keys.size, 17);
  const many = Array.from({ length: 50 }, (_, i) => `L${String(i).padStart(2, "0")}`);
  const some = keysOf(many, many.toReversed()); // the last are the most frequent
  assert.equal(some.size, 33);
  assert.deepEqual([...some.values()], many.slice(17));
  for (const used of ["u", "r", "g", "/", "?"]) assert.equal(keysOf(Array(40).fill("x")).has(used), false);
  assert.equal(plainKey({ key: "!", code: "Digit1", shiftKey: true }), "1");
  assert.equal(plainKey({ key: "Q", code: "KeyQ", shiftKey: true }), "q");
});

test("spans of BIO and BIOES labels", () => {
  assert.deepEqual(spansOf(["B-A", "I-A", "B-A", "O", null, "I-B"]), [
    { type: "A", start: 0, end: 2 }, { type: "A", start: 2, end: 3 }, { type: "B", start: 5, end: 6 }]);
  assert.deepEqual(spansOf(["S-A", "S-A", "B-A", "E-A", "E-A"]).map((s) => [s.start, s.end]), [[0, 1], [1, 2], [2, 4], [4, 5]]);
});

test("Table 7.1", () => {
  const x = { tokens: ["they", "can", "fish"], labels: ["N", "V"], emit: [[-2, -10], [-3, -1], [-3, -3]], trans: [[-3, -1], [-1, -3]], start: [-1, -2], stop: [-1, -1] };
  const best = run(x, "max");
  assert.deepEqual(best.alpha, [[-3, -12], [-9, -5], [-9, -11]]);
  assert.equal(best.total, -10);
  assert.deepEqual(best.path, [0, 1, 0]);
  const sum = run(x, "sum");
  for (let t = 0; t < 3; t++) assert.ok(Math.abs(logSumExp([0, 1].map((y) => sum.alpha[t][y] + sum.beta[t][y])) - sum.total) < 1e-12);
});

test("no path, and −∞", () => {
  const x = { tokens: ["a"], labels: ["N"], emit: [[-Infinity]], trans: [[0]], start: [0], stop: [0] };
  assert.equal(run(x, "max").path, null);
  assert.equal(run(x, "sum").total, -Infinity);
  assert.equal(logSumExp([-Infinity, -Infinity]), -Infinity);
});

test("hidden characters are shown by their codes", () => {
  assert.deepEqual(pieces("a\u202eb").map((p) => p.text), ["a", "U+202E", "b"]);
  assert.deepEqual(pieces("").map((p) => p.text), ["∅"]);
  assert.deepEqual(pieces("👨‍👩‍👧 é").length, 1);
});

test("numbers", () => {
  assert.equal(prob(0.934), ".93");
  assert.equal(prob(1), "1.00");
  assert.equal(prob(0.0001), "<.01");
  assert.equal(score(-3), "−3");
  assert.equal(score(-Infinity), "−∞");
  assert.equal(score(-0), "0");
});

test("edits of the URL", () => {
  assert.deepEqual(edits("emit.1.0:-5;start.0:-inf"), { "emit.1.0": -5, "start.0": -Infinity });
  assert.deepEqual(edits(undefined), {});
});

test("only the last answer counts", async () => {
  const waits = [20, 1];
  const ask = latest((i) => new Promise((resolve) => setTimeout(() => resolve(i), waits[i])));
  assert.deepEqual(await Promise.all([ask(0), ask(1)]), [null, 1]);
});
