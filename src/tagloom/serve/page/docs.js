// @ts-check
// The page of the server: what can be asked, and a form to try it. Text is only ever set as text.

/** @param {string} name @param {object} [properties] @param {...(Node|string)} children */
function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** @param {string} id */
const find = (id) => /** @type {any} */ (document.getElementById(id));

function headers() {
  const token = find("token").value;
  return { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
}

/** @param {any} schema */
function show(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(show).join(" or ");
  if (schema.enum) return schema.enum.map((/** @type {any} */ x) => JSON.stringify(x)).join(" or ");
  if (schema.type === "array") return `list of ${show(schema.items) || "anything"}`;
  return schema.type ?? "anything";
}

/** @param {any} api */
function describe(api) {
  find("description").textContent = api.info.description;
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const method of ["get", "post"]) {
      const about = /** @type {any} */ (methods)[method];
      if (!about) continue;
      find("paths").append(
        element("h3", {}, element("code", { textContent: `${method.toUpperCase()} ${path}` })),
        element("p", { textContent: `${about.summary}. ${about.description ?? ""}` }),
      );
      const example = about.requestBody?.content["application/json"]?.example;
      if (example) find("paths").append(element("pre", { textContent: JSON.stringify(example) }));
    }
  }
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const rows = Object.entries(schema.properties ?? {}).map(([field, type]) =>
      element("tr", {},
        element("td", {}, element("code", { textContent: field })),
        element("td", { textContent: show(type) }),
        element("td", { textContent: /** @type {any} */ (type).description ?? "" })));
    find("types").append(
      element("h3", { textContent: name }),
      element("p", { textContent: schema.description ?? "" }),
      element("table", {}, ...rows));
  }
}

async function start() {
  const answer = await fetch("openapi.json", { headers: headers() });
  find("token-row").hidden = answer.status !== 401 && !find("token").value;
  if (!answer.ok) return;
  find("paths").replaceChildren();
  find("types").replaceChildren();
  describe(await answer.json());
  const { models } = await (await fetch("v1/models", { headers: headers() })).json();
  find("model").replaceChildren(
    ...models.map((/** @type {any} */ model) => element("option", { textContent: model.name })));
}

find("token").addEventListener("change", start);
find("try").addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  const body = { texts: [find("text").value], model: find("model").value, probs: "top" };
  find("request").textContent = `POST /v1/tag\n${JSON.stringify(body, null, 2)}`;
  const answer = await fetch("v1/tag", {
    method: "POST", headers: headers(), body: JSON.stringify(body),
  });
  const result = await answer.json();
  find("answer").textContent = JSON.stringify(result, null, 2);
  const sentences = result.documents?.[0].sentences ?? [];
  find("tagged").replaceChildren(
    ...(answer.ok ? [] : [result.detail]),
    ...sentences.flatMap((/** @type {any} */ sentence) => sentence.tokens).map(
      (/** @type {any} */ token) => element("span", { className: "token" }, token.text,
        element("small", { textContent: `${token.label} ${Math.round(100 * token.prob)} %` }))));
});
start();
