// Answers to a question beside a plain approval, and what has changed in it. Loaded when one of them is needed.
import { keep, kept } from "./api.js";
import { pretty } from "./pretty.js";
import { Difference, draft } from "./question.js";
import { html, useLayoutEffect, useRef, useState, visible } from "./ui.js";

/** What can be allowed for later calls, in words, before it is. */
export function Always({ ways, give, back, busy, usable }) {
  const [exact, choose] = useState(ways[0].exact);
  const place = useRef(null);
  useLayoutEffect(() => {
    place.current.focus({ preventScroll: true });
    place.current.form.scrollIntoView({ block: "nearest" });
  }, []);
  return html`<form class="edit" onSubmit=${(event) => (event.preventDefault(), give({ answer: "approve", always: true, exact }))}>
    <fieldset ref=${place} tabindex="-1"><legend class="label">Approve this call, and allow this, too:</legend>
      ${ways.map((way) => html`<label class="check"><input type="radio" name="way" checked=${way.exact === exact} onChange=${() => choose(way.exact)} />
        ${way.calls}</label>`)}</fieldset>
    <p class="dim">${ways[0].terms} Approvals lists what you have allowed.</p>
    <div class="answers"><button class="primary" aria-keyshortcuts="Control+Enter" disabled=${busy || !usable}>Approve and allow</button>
      <button type="button" aria-keyshortcuts="Escape" onClick=${back}>Back</button></div>
  </form>`;
}

/** The text of a form, which is kept over a reload if it is another one than at first. */
export function useDraft(name, first) {
  const [text, set] = useState(() => kept(name) || first);
  useLayoutEffect(() => keep(name, text === first ? "" : text), [text]);
  return [text, set];
}

export function Deny({ give, back, busy, draft }) {
  const [reason, set] = useDraft(draft, "");
  const place = useRef(null);
  useLayoutEffect(() => place.current.focus(), []);
  return html`<form class="answers" onSubmit=${(event) => (event.preventDefault(), give({ answer: "deny", reason }))}>
    <label class="grow">Reason, which the model reads (optional)
      <input ref=${place} value=${reason} onInput=${(event) => set(event.currentTarget.value)} /></label>
    <button class="primary" aria-keyshortcuts="Control+Enter" disabled=${busy}>Deny this call</button>
    <button type="button" aria-keyshortcuts="Escape" onClick=${back}>Back</button>
  </form>`;
}

export function Edit({ text, look, back, busy, draft }) {
  const [value, set] = useDraft(draft, text);
  const [wrong, say] = useState("");
  const place = useRef(null);
  useLayoutEffect(() => place.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    try {
      const values = JSON.parse(value);
      if (typeof values !== "object" || values === null || Array.isArray(values)) throw new Error("Arguments are an object.");
      await look(value);
    } catch (error) {
      say(`These are no arguments: ${error.message}`);
    }
  };
  return html`<form class="edit" onSubmit=${submit}>
    <label>Other arguments, as JSON
      <textarea ref=${place} spellcheck="false" rows="8" value=${value} onInput=${(event) => set(event.currentTarget.value)}
        aria-invalid=${wrong ? "true" : "false"} aria-describedby="edit-wrong"></textarea></label>
    <p id="edit-wrong" class="wrong" role="alert">${wrong}</p>
    <div class="answers"><button class="primary" aria-keyshortcuts="Control+Enter" disabled=${busy}>Show this call</button>
      <button type="button" aria-keyshortcuts="Escape" onClick=${back}>Back</button></div>
  </form>`;
}

export function ForClient({ question, give, busy }) {
  const [text, set] = useDraft(draft(question, "Values"), "");
  return html`<p>The model waits for its result. You can write it here.</p>
    <div class="output"><pre dir="ltr">${visible(pretty(JSON.stringify(question.arguments)))}</pre></div>
    <form class="edit" onSubmit=${(event) => (event.preventDefault(), give({ text }))}>
      <label>Result<textarea rows="3" value=${text} onInput=${(event) => set(event.currentTarget.value)}></textarea></label>
      <div class="answers"><button class="primary" disabled=${busy}>Send the result</button></div>
    </form>`;
}

const argumentsOf = ({ shown }) => pretty(shown?.arguments || "");
const textOf = (question) => {
  const { tool, effect, reason, shown = {} } = question;
  const parts = { Tool: tool, Effect: effect, "Asked because": reason, "The server claims": shown.claim?.description, "It would change": shown.change, Arguments: argumentsOf(question) };
  return Object.entries(parts).map(([name, part]) => part && `${name}: ${part.includes("\n") ? "\n" : ""}${part}`).filter(Boolean).join("\n");
};

/** What is another one now. An edit has other arguments, and what follows from them is shown with the question. */
export function Changed({ before, now, edited }) {
  const lines = edited ? difference(argumentsOf(before), argumentsOf(now)) : difference(textOf(before), textOf(now));
  if (lines.every(([sign]) => sign === " ")) return html`<p class="label">Nothing has changed.</p>`;
  return html`<div class="changed"><p class="label">What has changed</p><${Difference} lines=${lines} /></div>`;
}

const MOST = 600;

/** The lines of two texts as `[sign, line, number]`, where sign is "-", "+" or " ", as `unified` has them. */
function difference(before, after) {
  const old = before.split("\n").slice(0, MOST);
  const now = after.split("\n").slice(0, MOST);
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const found = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) found.push([" ", old[i++], ++j]);
    else if (j >= now.length || (i < old.length && common[i + 1][j] >= common[i][j + 1])) found.push(["-", old[i++], i]);
    else found.push(["+", now[j++], j]);
  }
  return found;
}
