// The composer: what the user writes, to which model and agent, with images; and the bar of what waits.
import { keep, kept } from "./api.js";
import { bytes, html, useEffect, useLayoutEffect, useRef, useState, visible } from "./ui.js";

const LARGEST = 10 * 1024 * 1024;
/** Files of a message. */
const MOST = 10;
/** Files of a message that is written anew in another conversation, by its name. */
export const carried = new Map();
const joined = (...texts) => texts.filter(Boolean).join("\n\n");

export function Composer({ name, state, models, problem, say, queue, stop }) {
  const [text, write] = useState(() => kept(name));
  const [files, attach] = useState(() => carried.get(name) || JSON.parse(kept(`${name} files`) || "[]"));
  const [model, choose] = useState("");
  const [agent, appoint] = useState(null);
  const [wrong, tell] = useState("");
  const [busy, work] = useState(false);
  const place = useRef(null);
  const { questions, running, queued } = state;
  // Without choices, it is answered elsewhere.
  const asked = questions.filter((one) => one.kind !== "input" && one.choices?.length !== 0).length;
  const note = asked
    ? "If you write instead of answering, each open call is denied with your text as the reason."
    : questions.some((one) => one.kind === "input") && "The run waits for your answer.";
  // What was written to a conversation that is deleted is for a new one.
  const own = useRef(name);
  useLayoutEffect(() => {
    if (own.current === name) return;
    for (const part of ["", " files"]) keep(own.current + part);
    own.current = name;
    back({ text: kept(name), files: JSON.parse(kept(`${name} files`) || "[]") });
  }, [name]);
  // What waits for the end of a run is a draft, too: only this page sends it.
  useLayoutEffect(() => keep(name, joined(queued?.text, text)), [name, queued, text]);
  useLayoutEffect(() => {
    const all = [...(queued?.files || []), ...files].slice(0, MOST);
    keep(`${name} files`, all.length && JSON.stringify(all));
  }, [name, queued, files]);
  useEffect(() => void carried.delete(name), []);
  useEffect(() => {
    if (running || !queued || questions.length) return;
    queue(null);
    if (state.resumable) back(queued);
    else deliver(queued);
  }, [running, questions, queued]);
  // At once: keys would go to the page.
  useLayoutEffect(() => {
    if (!questions.length) place.current?.focus({ preventScroll: true });
  }, [name]);
  // The focus goes to a question that appears, but never away from a field: its keys would answer with what is typed.
  const seen = useRef(new Set());
  useLayoutEffect(() => {
    const fresh = questions.find((one) => !seen.current.has(one.invocation));
    const fewer = questions.length < seen.current.size;
    seen.current = new Set(questions.map((one) => one.invocation));
    const focused = document.activeElement;
    if (fresh && !text && !focused?.closest?.("dialog, .question")) goTo(fresh.invocation, focused?.matches?.("input, textarea, select"));
    // The question that had the focus is answered.
    else if (fewer && focused === document.body) questions.length ? goTo(questions[0].invocation) : place.current.focus({ preventScroll: true });
  }, [questions]);
  // The button that had the focus is gone.
  const stopping = useRef(false);
  useLayoutEffect(() => {
    if (!running && stopping.current && document.activeElement === document.body) place.current.focus({ preventScroll: true });
    stopping.current = false;
  }, [running]);
  const back = (message) => {
    write((later) => joined(message.text, later));
    attach((later) => [...message.files, ...later].slice(0, MOST));
  };
  const deliver = async (message) => {
    work(true);
    tell("");
    try {
      await say(message);
    } catch (problem) {
      // The user may have gone elsewhere meanwhile.
      if (!place.current) keep(name, joined(message.text, kept(name)));
      back(message);
      tell(problem.message);
    }
    work(false);
  };
  const send = async () => {
    if ((!text.trim() && !files.length) || busy) return;
    write("");
    attach([]);
    if (running) {
      const before = queued || { text: "", files: [] };
      queue({ text: joined(before.text, text), files: [...before.files, ...files].slice(0, MOST), model, agent });
    } else await deliver({ text, files, model, agent });
    place.current?.focus();
  };
  const keyed = (event) => {
    // While a word is composed, Enter only ends the composition, and Esc only cancels it.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "Escape" && questions.length) goTo(questions[0].invocation);
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    send();
  };
  const add = async (list) => {
    for (const file of list) {
      if (file.size > LARGEST) tell(`${file.name} is larger than ${bytes(LARGEST)}.`);
      else {
        const read = await encode(file);
        attach((before) => [...before, read].slice(0, MOST));
      }
    }
  };
  const take = (event) => {
    const { files, types } = event.clipboardData || event.dataTransfer;
    // A browser would open a dropped file in place of the page. While it is dragged, only its type is known.
    if (types.includes("Files")) event.preventDefault();
    add(files);
  };
  useEffect(() => {
    for (const kind of ["dragover", "drop"]) addEventListener(kind, take);
    return () => ["dragover", "drop"].forEach((kind) => removeEventListener(kind, take));
  }, []);
  return html`<div class="composer">
    ${questions.length > 0 && html`<div class="waiting">
      <span>${questions.length} waiting</span>
      <button type="button" class="quiet" onClick=${() => goTo(questions[0].invocation)}>Show the question</button></div>`}
    ${queued && html`<div class="waiting queued" role="status">
      <span dir="auto">Sent when the run ends: ${visible(queued.text || queued.files[0].name)}</span>
      <button type="button" class="quiet" onClick=${() => (queue(null), back(queued), place.current.focus())}>Take back</button></div>`}
    <form class="box" onSubmit=${(event) => (event.preventDefault(), send())}>
      ${note && html`<p class="warning" id="note">${note}</p>`}
      ${files.length > 0 && html`<ul class="files">${files.map((one, at) => html`<li key=${one.name + at}>${visible(one.name)}
        <button type="button" class="quiet" aria-label=${`Remove ${visible(one.name)}`} onClick=${() => attach(files.filter((_, place) => place !== at))}>×</button></li>`)}</ul>`}
      <label class="hidden" for="message">Message</label>
      <textarea id="message" ref=${place} rows="1" placeholder=${running ? "Write what is sent when the run ends" : "Write a message"} value=${text}
        aria-describedby=${note ? "note" : null} dir="auto"
        onInput=${(event) => write(event.currentTarget.value)} onKeyDown=${keyed} onPaste=${take}></textarea>
      <div class="tools">
        <label class="button quiet attach">Attach<input type="file" multiple class="hidden" onChange=${({ currentTarget }) => (add([...currentTarget.files]), (currentTarget.value = ""))} /></label>
        ${models.models?.length ? html`<select aria-label="Model" value=${model || state.model || names(models.models)[0]} onChange=${(event) => choose(event.currentTarget.value)}>
          ${names(models.models, state.model).map((one) => html`<option value=${one}>${visible(one)}</option>`)}</select>` : null}
        ${models.agents?.length ? html`<select aria-label="Agent" value=${agent ?? (state.agent || "")} onChange=${(event) => appoint(event.currentTarget.value)}>
          <option value="">No agent</option>${models.agents.map((one) => html`<option value=${one}>${visible(one)}</option>`)}</select>` : null}
        <span class="space"></span>
        ${running && !state.elsewhere && html`<button type="button" class="stop" title="Esc" aria-keyshortcuts="Escape" onClick=${() => ((stopping.current = true), stop())}>Stop</button>`}
        <button class="primary send" disabled=${busy || (!text.trim() && !files.length)}>${running ? "Queue" : "Send"}</button>
      </div>
    </form>
    <p class="wrong" role="alert">${visible(wrong || problem?.message || "")}</p>
  </div>`;
}

/** Brings a question in whole view, and moves the focus to it, unless it is to `stay`. */
function goTo(invocation, stay) {
  requestAnimationFrame(() => {
    const heading = document.getElementById(`asked-${invocation}`);
    if (!heading) return;
    if (!stay) heading.focus({ preventScroll: true });
    const question = heading.closest(".question");
    // Again with what is beneath the heading, which may be loaded later.
    const watch = new ResizeObserver(() => {
      for (const one of [question, heading]) one.scrollIntoView({ block: "nearest" });
      if (question.children.length > 1) watch.disconnect();
    });
    watch.observe(question);
  });
}

function names(models, used) {
  const found = models.toSorted((one, other) => Number(other.default) - Number(one.default)).map((one) => one.name);
  return used && !found.includes(used) ? [used, ...found] : found;
}

export async function encode(file) {
  const url = await new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
  return { name: file.name, mime_type: file.type || "application/octet-stream", data: url.slice(url.indexOf(",") + 1) };
}
