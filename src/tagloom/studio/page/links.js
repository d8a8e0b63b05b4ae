// @ts-check
// Places as URLs: #/place/part?name=value. Everything that a place shows is in its URL.

/** @typedef {Record<string, string | undefined>} Params */

/** @param {string} place @param {Params} [params] @param {string} [part] */
export function link(place, params = {}, part = "") {
  const given = Object.entries(params).filter(([, value]) => value !== undefined);
  const text = given.map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(/** @type {string} */ (v))}`).join("&");
  return `#/${place}${part ? "/" + encodeURIComponent(part) : ""}${text ? "?" + text : ""}`;
}

/** @param {string} hash @returns {{place: string, part: string, params: Params}} */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [place, part = ""] = path.split("/");
  /** @type {Params} */
  const params = {};
  for (const pair of query.split("&").filter(Boolean)) {
    const [name, value = ""] = pair.split(/=(.*)/s);
    params[decode(name)] = decode(value);
  }
  return { place: place || "try", part: decode(part), params };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text.replace(/\+/g, " "));
  } catch {
    return text;
  }
}
