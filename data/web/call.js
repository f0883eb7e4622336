// A call: one line with its tool, state, time and progress, which opens.
import { Content } from "./message.js";
import { pretty } from "./pretty.js";
import { Copy, duration, html, useEffect, useState, visible } from "./ui.js";

const STATES = {
  writing: "being written",
  open: "waiting",
  running: "running",
  done: "done",
  denied: "denied",
  failed: "failed",
  cancelled: "stopped",
};

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
      <span class="state">${STATES[state]}${report.cached ? ", cached" : ""}${report.edited ? ", edited" : ""}</span>
      <span class="took">${report.duration_ms ? duration(report.duration_ms) : html`<${Elapsed} call=${call} />`}</span>
    </summary>
    ${open && html`<${Inside} call=${call} report=${report} />`}
  </details>`;
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

function Inside({ call, report }) {
  const { error, content = [], discarded } = call.result || {};
  const values = call.raw && (call.fault || call.phase === "writing") ? call.raw : pretty(JSON.stringify(report.edited || call.arguments || {}));
  const output = content.filter((one) => one.type === "text").map((one) => one.text).join("");
  const facts = [
    report.attempts > 1 ? `${report.attempts} attempts${report.retried?.length ? ` (after ${report.retried.join(", ")})` : ""}` : "",
    report.exit_code != null ? `exit code ${report.exit_code}` : "",
    report.sandbox ? `sandbox: ${report.sandbox}` : "",
    report.stdout_truncated || report.stderr_truncated ? "output shortened" : "",
    discarded ? "discarded: the model did not read it" : "",
  ].filter(Boolean);
  return html`<div class="inside">
    <p class="label">Arguments</p>
    <div class="output"><pre dir="ltr">${visible(values)}</pre></div>
    ${report.edited && html`<p class="dim">The model asked for ${visible(JSON.stringify(call.arguments))}</p>`}
    ${call.fault && html`<p class="notice bad">${visible(call.fault.message)}</p>`}
    ${call.result && html`<p class="label">${error ? "Error" : "Result"}</p>
      ${error && html`<p class="notice bad">${visible(error.message)} ${visible(error.suggestion || "")}</p>`}
      ${content.length ? html`<div class="output" tabindex="0" role="region" aria-label="Result">
        ${output ? html`<${Copy} text=${output} label="Copy this result" />` : null}
        ${content.map((one) => html`<${Content} content=${one} plain />`)}
      </div>` : error ? null : html`<p class="dim">It returned nothing.</p>`}`}
    ${report.changes?.length ? html`<p class="label">Changes</p><ul class="facts">
      ${report.changes.map((one) => html`<li>${visible(one.kind.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase())}
        ${" "}<code>${visible(one.data.path ?? one.data.command ?? one.data.key ?? one.data.pid ?? "")}</code></li>`)}</ul>` : null}
    <p class="dim">${visible(facts.join(" · "))}</p>
  </div>`;
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
  if (error) parts.unshift(error.message);
  return visible(parts.join(", ").slice(0, 160).replace(/\s+/g, " "));
}
