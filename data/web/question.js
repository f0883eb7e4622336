// A question: may this call run? All of it is shown before it can be approved, and an answer names what was shown.
import { keep, kept } from "./api.js";
import { answer, deliver, revise } from "./conversation.js";
import { approved } from "./items.js";
import { broken, pretty } from "./pretty.js";
import { html, Later, styled, useEffect, useLayoutEffect, useRef, useState, visible } from "./ui.js";

/** Milliseconds for which the buttons do nothing, so that no click meant for something else approves. */
const INERT = 500;
/** The forms whose text is kept, by what was shown: it is of no use for another call. */
const FORMS = ["Edit", "Deny"];
export const draft = ({ digest, invocation }, form) => `${digest} ${invocation} ${form}`;
/** Whether a request may not have reached the conversation: its answer stays, to be sent again. */
const lost = ({ status }) => !status || status === 401 || status > 499;
const WORDS = { approve: "Your approval", deny: "Your denial" };

/** The open question of a call. `changed` loads the questions again. */
export function Question({ identifier, question, changed }) {
  const [before, remember] = useState(null);
  const [problem, set] = useState(null);
  const [busy, work] = useState(false);
  const name = draft(question, "Answer");
  const give = async (fields, values) => {
    work(true);
    set(null);
    keep(name, JSON.stringify([fields, values]));
    if (fields.answer === "approve") approved.set(question.invocation, question);
    try {
      await (fields.text === undefined
        ? answer(identifier, question, fields, values)
        : deliver(identifier, question.invocation, fields.text));
      ["Answer", "Values", ...FORMS].forEach((form) => keep(draft(question, form), ""));
    } catch (failure) {
      set(failure);
      if (!lost(failure)) keep(name, "");
      approved.delete(question.invocation);
      if (failure.status === 409) remember(question);
    }
    await changed();
    work(false);
  };
  const [unsent, values] = JSON.parse((!busy && kept(name)) || "[]");
  const again = approved.get(question.invocation);
  const earlier = [before, again].find((one) => one && one.digest !== question.digest);
  const wrong = unsent
    ? `${WORDS[unsent.answer] || "Your answer"} was not sent. ${problem ? problem.message : ""}`
    : problem ? (earlier ? "This call has changed since you saw it. Nothing was approved." : problem.message)
    : earlier && "This call has changed since you approved it. It has not run.";
  const place = useRef(null);
  // The button that was pressed may be at the end of a long question, and gone with the focus.
  useEffect(() => {
    if (!problem) return;
    place.current.scrollIntoView({ block: "nearest" });
    if (document.activeElement === document.body) place.current.focus({ preventScroll: true });
  }, [problem, question.digest]);
  const [Body, asks] = { input: [InputForm, "asks you"], client: [ForClient, "is run by its client"] }[question.kind] || [Approval, "wants to run"];
  return html`<section class="question" aria-labelledby=${`asked-${question.invocation}`} data-question=${question.invocation}>
    ${earlier && html`<${Later} from=${answers} name="Changed" before=${earlier} now=${question} />`}
    <h2 id=${`asked-${question.invocation}`} tabindex="-1" class="asked"><code>${visible(question.tool || question.name)}</code> ${asks}</h2>
    <${Body} key=${question.digest} identifier=${identifier} question=${question} give=${give} busy=${busy} />
    ${wrong && html`<div class="notice bad" role="alert" tabindex="-1" ref=${place}><p>${visible(wrong)}</p>
      ${unsent && html`<button type="button" onClick=${() => give(unsent, values)}>Send again</button>`}</div>`}
  </section>`;
}

const form = () => styled(import("./form.js"));
const answers = () => styled(import("./answers.js"));
const InputForm = (given) => html`<${Later} from=${form} name="InputForm" ...${given} />`;
const ForClient = (given) => html`<${Later} from=${answers} name="ForClient" ...${given} />`;

/** Whether what appeared may be pressed: it has been in a visible tab for long enough. */
export function useReady() {
  const [ready, set] = useState(false);
  useEffect(() => {
    let timer;
    const wait = () => {
      set(false);
      clearTimeout(timer);
      if (!document.hidden) timer = setTimeout(() => set(true), INERT);
    };
    wait();
    document.addEventListener("visibilitychange", wait);
    return () => (clearTimeout(timer), document.removeEventListener("visibilitychange", wait));
  }, []);
  return ready;
}

function Approval({ identifier, question, give, busy, asked, edited }) {
  const { shown, effect, reason, choices, always: ways } = question;
  const parts = [["claim", shown.claim], ["change", shown.change], ["arguments", shown.arguments]].filter(([, part]) => part);
  const [seen, see] = useState({});
  const ready = useReady();
  const [mode, turn] = useState(() => (!asked && choices.length && FORMS.find((form) => kept(draft(question, form)))) || "");
  const [revised, show] = useState(null);
  const heading = () => document.getElementById(`asked-${question.invocation}`);
  const all = parts.every(([name]) => seen[name]);
  const usable = ready && all && !busy;
  if (revised) {
    // The edited call is a call like any other: it is shown whole, and only then approved.
    const run = (fields) => give(fields.answer === "approve" ? { answer: "edit", shown: revised.question.digest } : fields, fields.answer === "approve" ? revised.values : undefined);
    return html`<${Approval} key=${revised.question.digest} identifier=${identifier} question=${revised.question} give=${run} busy=${busy}
      asked=${question} edited=${() => (show(null), turn("Edit"))} />`;
  }
  const part = (name) => ({ seen: seen[name], see: () => see((before) => ({ ...before, [name]: true })) });
  return html`
    <p class="effect"><span class=${`badge ${effect}`}>effect: ${effect}</span> Asked because ${visible(reason)}.</p>
    ${shown.description && html`<p dir="auto">${shown.description}</p>`}
    ${shown.notes.map((note) => html`<p class="note">${note}</p>`)}
    ${shown.claim && html`<p class="label">The server <code>${shown.claim.server}</code> claims, and this is not verified:</p>
      <${Whole} ...${part("claim")} label="Claim of the server">
        <blockquote class="plain" dir="auto">${[shown.claim.title, shown.claim.description].filter(Boolean).join("\n")}</blockquote></${Whole}>`}
    ${shown.change !== null && html`<p class="label">${shown.change ? "It would change" : "It would change nothing."}</p>`}
    ${shown.change && html`<${Whole} ...${part("change")} label="Changes"><${Difference} lines=${unified(shown.change)} /></${Whole}>`}
    <p class="label">Arguments${asked && ", as edited by you"}</p>
    <${Whole} ...${part("arguments")} label="Arguments"><pre dir="ltr">${broken(pretty(shown.arguments)).map((part, at) => (at ? html`<span>${part}</span>` : part))}</pre></${Whole}>
    ${asked && html`<${Later} from=${answers} name="Changed" edited before=${asked} now=${question} />`}
    ${mode === "" && choices.length > 0 && html`<div class="answers">
      <button type="button" class="primary" disabled=${!usable} aria-keyshortcuts="Control+Enter" onClick=${() => give({ answer: "approve" })}>Approve${key("Ctrl ↵")}</button>
      <button type="button" disabled=${busy} aria-keyshortcuts="d" onClick=${() => turn("Deny")}>Deny${key("d")}</button>
      ${choices.includes("edit") && html`<button type="button" disabled=${busy} aria-keyshortcuts="e" onClick=${edited || (() => turn("Edit"))}>Edit arguments${key("e")}</button>`}
      ${ways?.length > 0 && html`<button type="button" disabled=${busy} aria-keyshortcuts="a" onClick=${() => turn("Always")}>Always approve …${key("a")}</button>`}
    </div>`}
    ${!all && choices.length > 0 && html`<p class="dim" role="note">Scroll to the end of each part, or expand it, to approve.</p>`}
    ${mode && html`<${Later} from=${answers} name=${mode} busy=${busy} usable=${usable} ways=${ways} text=${pretty(shown.arguments)} draft=${draft(asked || question, mode)} give=${give} back=${() => (turn(""), heading()?.focus())}
      look=${async (values) => (show({ question: await revise(identifier, question, values), values }), heading()?.focus({ preventScroll: true }))} />`}`;
}

const key = (name) => html`<kbd aria-hidden="true">${name}</kbd>`;

/** A part that must be seen whole: it says when its end was in view, or that it was expanded. */
function Whole({ seen, see, label, children }) {
  const place = useRef(null);
  const [open, set] = useState(false);
  const [long, measure] = useState(false);
  const look = () => {
    // An event may come after the element has gone.
    if (!place.current) return;
    const { scrollTop, clientHeight, scrollHeight } = place.current;
    if (!clientHeight) return;
    measure(scrollHeight > clientHeight + 2);
    if (scrollTop + clientHeight >= scrollHeight - 2) see();
  };
  useLayoutEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  return html`<div class="whole">
    <div class=${`output ${open ? "open" : ""}`} ref=${place} tabindex="0" role="region" aria-label=${label} onScroll=${look}>${children}</div>
    ${long && !open && html`<div class="more">${!seen && html`<span class="dim">There is more.</span>`}
      <button type="button" class="quiet" onClick=${() => (set(true), see(), place.current.focus({ preventScroll: true }))}>Show all of it</button></div>`}
  </div>`;
}

/** The lines of a unified diff, with their signs and numbers. */
export function unified(text) {
  let left = 0;
  let right = 0;
  const found = [];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) {
      [left, right] = [Number(hunk[1]), Number(hunk[2])];
      found.push(["@", line]);
    } else if (!left && !right) found.push(["@", line]);
    else if (line[0] === "-") found.push(["-", line.slice(1), left++]);
    else if (line[0] === "+") found.push(["+", line.slice(1), right++]);
    else if (line[0] === "\\") found.push(["@", line]);
    else {
      found.push([" ", line.slice(1), right++]);
      left++;
    }
  }
  return found;
}

const SIGNS = { "-": "removed", "+": "added" };

/** A table of lines: the sign says what was removed and added, and the colour only repeats it. */
export function Difference({ lines }) {
  return html`<table class="difference"><thead class="hidden"><tr><th>Line</th><th>Change</th><th>Text</th></tr></thead><tbody>
    ${lines.map(([sign, text, number]) => html`<tr class=${SIGNS[sign] || (sign === "@" ? "head" : "")}>
      <td class="number">${number ?? ""}</td>
      <td class="sign">${SIGNS[sign] ? html`<span aria-hidden="true">${sign}</span><span class="hidden">${SIGNS[sign]}</span>` : ""}</td>
      <td class="line">${visible(text) || " "}</td></tr>`)}
  </tbody></table>`;
}
