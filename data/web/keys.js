// Single keys, which can be switched off, and the dialog that lists them. None of them answers a question.
import { Dialog, html, useState } from "./ui.js";

const SWITCH = "ripieno keys";
const enabled = () => localStorage.getItem(SWITCH) !== "off";

/** Listens to the keys of the page. Returns a function that ends this. */
export function listen({ help, escape }) {
  const keyed = (event) => {
    if (event.key === "Escape") return escape();
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !enabled()) return;
    if (event.target.closest?.("input, textarea, select, dialog, [contenteditable]")) return;
    const work = { "/": search, j: () => step(1), k: () => step(-1), "?": help }[event.key];
    if (work) {
      event.preventDefault();
      work();
    }
  };
  addEventListener("keydown", keyed);
  return () => removeEventListener("keydown", keyed);
}

function search() {
  (document.querySelector("main [data-search]") || document.querySelector("[data-search]"))?.focus();
}

/** Moves the focus to the next or previous message or row. */
function step(by) {
  const all = [...document.querySelectorAll("main [data-step]")];
  if (!all.length) return;
  const at = all.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
  all[next].focus({ preventScroll: true });
  all[next].scrollIntoView({ block: "nearest" });
}

const KEYS = [
  ["Enter", "sends the message"],
  ["Shift + Enter", "begins a new line"],
  ["Esc", "closes a dialog or the list"],
  ["/", "goes to the search"],
  ["j, k", "goes to the next or previous message"],
  ["?", "shows this list"],
];

export function Help({ close }) {
  const [on, set] = useState(enabled());
  const change = (event) => {
    localStorage.setItem(SWITCH, event.currentTarget.checked ? "on" : "off");
    set(event.currentTarget.checked);
  };
  return html`<${Dialog} title="Keys" close=${close}>
    <dl class="keys">${KEYS.map(([key, does]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${does}</dd></div>`)}</dl>
    <p class="dim">No single key answers a question.</p>
    <label class="check"><input type="checkbox" checked=${on} onChange=${change} /> Use the keys /, j, k and ?</label>
    <div class="answers"><button type="button" class="primary" onClick=${close}>Close</button></div>
  </${Dialog}>`;
}
