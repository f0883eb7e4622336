// A call: one line with its tool, state, time and progress, which opens; and beneath it the images that it returned.
import { Content, picture } from "./message.js";
import { duration, html, Later, styled, useEffect, useState, visible } from "./ui.js";

const details = () => styled(import("./details.js"));
const STATES = {
  writing: "being written",
  open: "waiting",
  approved: "approved",
  declined: "denied",
  running: "running",
  elsewhere: "asked where it runs",
  done: "done",
  denied: "denied",
  failed: "failed",
  cancelled: "stopped",
};

/** What an answered call waits for. */
const NEXT = { others: ", waits for the other answers", last: "; go on with Continue" };

/** The state of a call, and the word for it. */
function stateOf({ phase, result }) {
  if (!result) return phase;
  const category = result.error?.category;
  if (!category) return "done";
  return category === "denied" || category === "cancelled" ? category : "failed";
}

export function Call({ call }) {
  const [open, set] = useState(false);
  const state = stateOf(call);
  const report = call.result?.report || {};
  return html`<details class=${`call ${state}`} data-step tabindex="-1" open=${open}
    onToggle=${(event) => set(event.currentTarget.open)}>
    <summary>
      <span class="mark" aria-hidden="true"></span>
      <code class="name">${visible(call.name)}</code>
      <span class="gist">${gist(call)}</span>
      ${call.progress && !call.result && html`<${Progress} progress=${call.progress} />`}
      <span class="state">${STATES[state]}${(!call.result && NEXT[call.next]) || ""}${report.cached ? ", cached" : ""}${report.edited ? ", edited" : ""}</span>
      <span class="took">${report.duration_ms ? duration(report.duration_ms) : html`<${Elapsed} call=${call} />`}</span>
    </summary>
    ${open && html`<${Later} from=${details} name="Details" call=${call} report=${report} />`}
  </details>
  ${(call.result?.content || []).filter(picture).map((one) => html`<${Content} content=${one} />`)}`;
}

function Elapsed({ call }) {
  const [now, set] = useState(Date.now());
  const ticking = call.phase === "running" && call.began;
  useEffect(() => {
    if (!ticking) return;
    const timer = setInterval(() => set(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ticking]);
  return ticking && now - call.began >= 1000 ? duration(Math.floor((now - call.began) / 1000) * 1000) : null;
}

function Progress({ progress: { done, total, message } }) {
  return html`<span class="progress">
    ${total ? html`<progress max=${total} value=${done} aria-label="Progress"></progress>` : null}
    <span>${visible(message || (total ? `${done} of ${total}` : `${done}`))}</span>
  </span>`;
}

/** The arguments in some words, for the line. */
function gist(call) {
  if (call.phase === "writing") return visible((call.raw || "").slice(0, 120));
  const { report, error } = call.result || {};
  const values = report?.edited || call.arguments || {};
  const parts = Object.entries(values).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return Object.keys(values).length === 1 ? text : `${name}: ${text}`;
  });
  // An edited call has its arguments in another order. Why one failed should be seen without opening it.
  parts.sort((one, other) => other.startsWith("path:") - one.startsWith("path:"));
  if (error) parts.unshift(error.message.replace(/\.$/, ""));
  return visible(parts.join(", ").slice(0, 160).replace(/\s+/g, " "));
}
