// What all views share: templates, hooks, stores, visible text, times, and the one place that inserts HTML.
import { Fragment, h, render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import htm from "htm";

export { Fragment, h, render, useEffect, useLayoutEffect, useMemo, useRef, useState };
export const html = htm.bind(h);

/** A value that components follow. */
export function store(value) {
  const listeners = new Set();
  return {
    get value() {
      return value;
    },
    set(next) {
      value = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value of a store; the component is drawn again when it changes. */
export function useStore(source) {
  const [, draw] = useState(0);
  const seen = source.value;
  useLayoutEffect(() => {
    const update = () => draw((count) => count + 1);
    if (source.value !== seen) update();
    return source.subscribe(update);
  }, [source]);
  return source.value;
}

/** The title of the view that is shown. */
export const heading = store("");

/** What the polite live region says. There is only one such region. */
export const announcement = store("");
export function announce(text) {
  const said = text.length > 2000 ? `${text.slice(0, 2000)} …` : text;
  // The same words once more are read only if the text is another one.
  announcement.set(said === announcement.value ? `${said}\u00a0` : said);
}

// Characters without a shape, that reverse a text, or control a terminal. Scripts and emoji need joiners.
const HIDDEN = /(?![\t\n\u200c\u200d\ufe0f])[\p{Cc}\p{Cf}\p{Cs}\p{VS}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu;

/** A text of a tool, a server or a model in which every character is visible. */
export const visible = (text) =>
  String(text).replace(HIDDEN, (one) => `\\u${one.codePointAt().toString(16).padStart(4, "0")}`);

/** A title in one line; one that is empty has a name, too. */
export const titled = (text) => visible((text || "").replace(/\s+/g, " ").trim()) || "New conversation";

// The one policy: only the Markdown that our server rendered passes it.
const policy = globalThis.trustedTypes?.createPolicy("ripieno", { createHTML: (text) => text }) ?? {
  createHTML: (text) => text,
};

/** The server's HTML of a Markdown text. Its code gets copy buttons. */
export function Rendered({ text }) {
  const place = useRef(null);
  useLayoutEffect(() => {
    place.current.innerHTML = policy.createHTML(text);
    for (const one of place.current.querySelectorAll("pre, table")) {
      const box = document.createElement("div");
      one.replaceWith(box);
      if (one.tagName === "PRE") {
        box.className = "code";
        one.tabIndex = 0;
        render(html`<${Copy} text=${one.textContent} label="Copy this code" />`, box);
      } else {
        box.className = "wide";
        box.tabIndex = 0;
        box.role = "region";
        box.ariaLabel = "Table";
      }
      box.append(one);
    }
  }, [text]);
  return html`<div class="prose" dir="auto" ref=${place}></div>`;
}

/** A button that copies a text, or what a function gives of a long one, and says so for a moment. */
export function Copy({ text, label }) {
  const [said, say] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : await text());
      say("Copied");
      announce("Copied.");
    } catch ({ status }) {
      say(status === undefined ? "Not allowed" : "Not loaded");
    }
    setTimeout(() => say("Copy"), 1500);
  };
  return html`<button type="button" class="copy quiet" aria-label=${label} onClick=${copy}>${said}</button>`;
}

/** A long plain text in blocks, so that only those in view are laid out. They end with a line, unless it is too long. */
export function Lines({ text }) {
  const blocks = useMemo(() => visible(text).match(/[^]{1,8000}(?:\n|$)|[^]{8000}/gu) || [], [text]);
  return blocks.map((block, at) => html`<pre key=${at} class=${blocks.length > 1 ? "block" : ""}>${block}</pre>`);
}

/** A duration in words, of milliseconds. */
export function duration(milliseconds) {
  if (milliseconds > 0 && milliseconds < 1) return "<1 ms";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

export const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

export const bytes = (count) =>
  count < 1024 ? plural(count, "byte") : count < 1048576 ? `${(count / 1024).toFixed(1)} KB` : `${(count / 1048576).toFixed(1)} MB`;

/** A time of day if it is of today, otherwise its date. */
export function when(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return "";
  return time.toDateString() === new Date().toDateString()
    ? time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : time.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" });
}

/** What went wrong, with a way to try again. */
export function Trouble({ problem, again }) {
  return html`<div class="notice bad" role="alert">
    <p>${visible(problem.message)}</p>
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

/** Loads once for each key. Returns the value, the problem, and a function that loads again. */
export function useLoaded(load, key) {
  const [found, set] = useState({});
  const [round, again] = useState(0);
  useEffect(() => {
    let current = true;
    load().then(
      (value) => current && set({ key, value }),
      (problem) => current && set({ key, problem }),
    );
    return () => (current = false);
  }, [key, round]);
  const same = found.key === key ? found : {};
  return [same.value, same.problem, () => again((count) => count + 1)];
}

let styles;

/** The module, when the styles of what a chat does not need are there, too. */
export async function styled(module) {
  styles ||= new Promise((go) => {
    const link = document.createElement("link");
    const failed = () => ((styles = null), link.remove(), go());
    document.head.append(Object.assign(link, { rel: "stylesheet", href: "static/views.css", onload: go, onerror: failed }));
  });
  return (await Promise.all([module, styles]))[0];
}

const modules = new WeakMap();

/** A component of a module that is loaded later. `from` is the same function each time; `around` shows what is wrong.
 * Once it is loaded, it is drawn at once: what is beneath it does not move away from a pointer. */
export function Later({ from, name, around = (trouble) => trouble, ...rest }) {
  const [found, problem] = useLoaded(from, from);
  if (found) modules.set(from, found);
  const module = modules.get(from);
  if (problem && !module) return around(html`<${Trouble} problem=${UNLOADED} again=${() => location.reload()} />`);
  return module ? html`<${module[name]} ...${rest} />` : null;
}

const UNLOADED = { message: "This part of the page cannot be loaded. Is “ripieno serve web” still running?" };
