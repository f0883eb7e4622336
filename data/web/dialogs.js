// The dialogs: they rename and delete a conversation, and list the keys. The page loads them when one is opened.
import { send } from "./api.js";
import { refresh, refreshQuestions } from "./chats.js";
import { choose, colours, enable, enabled } from "./keys.js";
import { html, titled, useLayoutEffect, useRef, useState } from "./ui.js";

/** A modal dialog. Esc closes it, and the focus goes back. */
function Dialog({ title, close, children }) {
  const place = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = place.current;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  return html`<dialog ref=${place} aria-labelledby="dialog-title" onClose=${close}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

export function Rename({ conversation, title, close }) {
  const [value, set] = useState(title || "");
  const [wrong, say] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    try {
      await send("PATCH", conversation.path, { title: value.trim() });
      refresh();
      close();
    } catch (problem) {
      say(problem.message);
    }
  };
  return html`<${Dialog} title="Rename the conversation" close=${close}>
    <form onSubmit=${submit}>
      <label>Title<input autofocus maxlength="200" value=${value} onInput=${(event) => set(event.currentTarget.value)} /></label>
      <p class="wrong" role="alert">${wrong}</p>
      <div class="answers"><button class="primary">Rename</button><button type="button" onClick=${close}>Cancel</button></div>
    </form></${Dialog}>`;
}

export function Delete({ conversation, title, close }) {
  const [wrong, say] = useState("");
  const remove = async () => {
    // This tab knows, and need not look for what is gone.
    conversation.stopped?.abort();
    try {
      await send("DELETE", conversation.path, undefined);
      location.hash = "#/";
      refresh();
      refreshQuestions();
      close();
    } catch (problem) {
      say(problem.message);
      conversation.follow();
    }
  };
  return html`<${Dialog} title="Delete the conversation?" close=${close}>
    <p>“${titled(title)}” and its content are deleted. The journal still proves that it existed.</p>
    <p class="wrong" role="alert">${wrong}</p>
    <div class="answers"><button type="button" class="danger" onClick=${remove}>Delete</button>
      <button type="button" autofocus onClick=${close}>Cancel</button></div></${Dialog}>`;
}

const KEYS = [
  ["Enter", "sends the message"],
  ["Shift + Enter", "begins a new line"],
  ["Esc", "closes a dialog or the list; else, goes from the message field to the question, or stops the answer"],
  ["/", "goes to the search"],
  ["j, k", "goes to the next or previous message"],
  ["c", "copies the message in focus"],
  ["Ctrl + Enter", "approves the call in focus, or confirms its form"],
  ["d, e, a", "opens its form to deny, edit, or always approve"],
  ["?", "shows this list"],
];

const COLOURS = { "light dark": "as the system", light: "light", dark: "dark" };

export function Help({ close }) {
  const [on, set] = useState(enabled());
  const change = (event) => {
    enable(event.currentTarget.checked);
    set(event.currentTarget.checked);
  };
  return html`<${Dialog} title="Keys and colours" close=${close}>
    <dl class="keys">${KEYS.map(([key, does]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${does}</dd></div>`)}</dl>
    <p class="dim">No single key answers a question.</p>
    <label class="check"><input type="checkbox" checked=${on} onChange=${change} /> Use single keys, Ctrl + Enter, and Esc to stop</label>
    <label>Colours<select onChange=${(event) => choose(event.currentTarget.value)}>
      ${Object.entries(COLOURS).map(([name, words]) => html`<option value=${name} selected=${name === colours()}>${words}</option>`)}</select></label>
    <div class="answers"><button type="button" class="primary" onClick=${close}>Close</button></div>
  </${Dialog}>`;
}
