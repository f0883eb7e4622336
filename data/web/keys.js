// The choices of this browser: its colours, and single keys, which can be switched off. None of them answers a question: those of its buttons only open a form.

import { announce } from "./ui.js";

const SWITCH = "ripieno keys";
export const enabled = () => localStorage.getItem(SWITCH) !== "off";
export const enable = (on) => localStorage.setItem(SWITCH, on ? "on" : "off");

const COLOURS = "ripieno colours";
/** The colours that the user has chosen, as CSS names them: "light dark" are those of the system. */
export const colours = () => localStorage.getItem(COLOURS) || "light dark";
export function choose(name) {
  localStorage.setItem(COLOURS, name);
  document.documentElement.style.colorScheme = name;
}

/** Listens to the keys of the page. `escape` returns whether it has closed something. Returns a function that ends this. */
export function listen({ help, escape }) {
  const keyed = (event) => {
    const { key, target } = event;
    if (event.isComposing) return;
    const chord = event.ctrlKey || event.metaKey;
    const pressed = /^([a-z]|Enter|Escape)$/.test(key) && target.closest?.("[data-question]")?.querySelector(`[aria-keyshortcuts="${chord ? "Control+" : ""}${key}"]`);
    if (key === "Escape") {
      if (pressed) pressed.click();
      else if (!escape() && !event.repeat && enabled() && !target.closest?.("dialog, input, select")) stop();
      return;
    }
    if (event.altKey || event.repeat || !enabled()) return;
    // A form of a question is confirmed from its fields, too.
    if (target.closest?.("input, textarea, select, dialog, [contenteditable]") && !(chord && pressed)) return;
    const work = pressed ? () => (pressed.disabled ? unread(pressed) : pressed.click()) : chord ? null : { "/": search, j: () => step(1), k: () => step(-1), c: copy, "?": help }[key];
    if (work) {
      event.preventDefault();
      work();
    }
  };
  addEventListener("keydown", keyed);
  return () => removeEventListener("keydown", keyed);
}

/** Stops the run that answers. While a question waits, the key goes there. */
function stop() {
  document.querySelector("main:not(:has(.question)) .stop")?.click();
}

/** Goes to what is still to be read before a question can be approved. */
function unread(button) {
  const question = button.closest("[data-question]");
  const note = question.querySelector("[role=note]");
  if (!note) return;
  const part = question.querySelector(".whole:has(.more .dim) .output");
  part?.focus({ preventScroll: true });
  // The end of the part: both need not fit.
  for (const one of [part?.parentNode, note]) one?.scrollIntoView({ block: "nearest" });
  announce(note.textContent);
}

/** Copies the message in focus. */
function copy() {
  const one = document.activeElement.closest("[data-step]");
  (one?.parentNode.querySelector(":scope > .copy") || one?.querySelector("[aria-label^=Copy]"))?.click();
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
