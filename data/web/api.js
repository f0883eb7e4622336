// Requests to the server with the token of this tab, and how a tab gets its token.
import { store } from "./ui.js";

// Pages beneath other paths of the same origin have other tokens.
const KEY = `ripieno ${new URL(".", document.baseURI).pathname}`;
const channel = new BroadcastChannel(KEY);
let token = sessionStorage.getItem(KEY);

/** Keeps what was written and not yet sent, also over a reload. A storage that is full keeps nothing of it. */
export function keep(name, text) {
  try {
    sessionStorage[text ? "setItem" : "removeItem"](`${KEY} ${name}`, text);
  } catch {
    keep(name);
  }
}
export const kept = (name) => sessionStorage.getItem(`${KEY} ${name}`) || "";

/** `state` is "starting", "in" or "out"; `reason` says why it is out. */
export const session = store({ state: "starting", reason: "" });

/** Its listeners are called when another tab has changed something. */
export const changes = store();

/** An error of a request. `status` is 0 if no answer came. */
export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

channel.addEventListener("message", ({ data }) => {
  if (data.changed) changes.set();
  else if (data.want && token && data.want !== token) channel.postMessage({ token });
  else if (data.token && !token) enter(data.token);
});

function enter(given) {
  token = given;
  sessionStorage.setItem(KEY, token);
  session.set({ state: "in", reason: "" });
}

function leave(reason) {
  const refused = token;
  token = null;
  sessionStorage.removeItem(KEY);
  session.set({ state: "out", reason });
  channel.postMessage({ want: refused || "any" });
}

/** Takes a code, that of the address, in whose place then comes the one `before`, or the token of another tab. */
export async function signIn(given, before) {
  const code = given ?? new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) {
    if (token) session.set({ state: "in", reason: "" });
    else {
      channel.postMessage({ want: "any" });
      setTimeout(() => token || leave(""), 300);
    }
    return;
  }
  if (given === undefined) {
    history.replaceState(null, "", `${location.pathname}${location.search}${before || "#/"}`);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
  try {
    const answer = await fetch("api/session", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
      credentials: "omit",
    });
    const { token: made, error } = await answer.json();
    if (made) {
      enter(made);
      channel.postMessage({ token: made });
    } else if (token) session.set({ state: "in", reason: "" });
    else leave(error?.message || "This link was used already.");
  } catch {
    leave("The server does not answer.");
  }
}

/** The answer of a request, with the token. Errors: `Problem`. */
export async function ask(path, { method = "GET", body, signal, headers = {} } = {}) {
  const used = token;
  let answer;
  try {
    answer = await fetch(`api/${path}`, {
      method,
      signal,
      headers: {
        authorization: `Bearer ${used}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body,
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "The server does not answer. Is “ripieno serve web” still running?");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401 && used === token) leave("The server does not know this page any more.");
  throw new Problem(answer.status, said.error?.message || `The server answered ${answer.status}.`);
}

/** An integer with more digits than JavaScript keeps is written as it was read. */
const exact = (_, value, { source } = {}) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source)
    ? Object.assign(new Number(value), { toString: () => source, toJSON: () => JSON.rawJSON(source) })
    : value;

/** The value of JSON. Only a text with so many digits is read slowly. */
export const parse = (text) => JSON.parse(text, /\d{16}/.test(text) && exact);

export const get = async (path, signal) => parse(await (await ask(path, { signal })).text());

/** Sends JSON: a value, or a text that is JSON already, in which no number loses digits. */
export async function send(method, path, body = {}) {
  const answer = await ask(path, { method, body: typeof body === "string" ? body : JSON.stringify(body) });
  if (path !== "markdown") channel.postMessage({ changed: true });
  return parse(await answer.text());
}
export const post = (path, body) => send("POST", path, body);

const rendered = new Map();
let asked = new Map();

/** The HTML of a Markdown text, or null while the server has not rendered it; `ready` is called then. */
export function markdown(text, ready) {
  const found = rendered.get(text);
  if (found !== undefined) return found;
  if (!asked.size) setTimeout(renderAll);
  asked.set(text, [...(asked.get(text) || []), ready]);
  return null;
}

async function renderAll() {
  const wanted = [...asked];
  asked = new Map();
  for (let at = 0; at < wanted.length; at += 50) {
    const part = wanted.slice(at, at + 50);
    try {
      const { html } = await post("markdown", { texts: part.map(([text]) => text.toWellFormed()) });
      if (rendered.size > 2000) rendered.clear();
      part.forEach(([text, waiting], place) => {
        rendered.set(text, html[place]);
        for (const ready of waiting) ready();
      });
    } catch {
      // The text stays as it is, without a format.
    }
  }
}
