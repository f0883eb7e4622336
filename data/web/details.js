// What a call has when it is opened: its arguments, its result, what it changed, and how it ran.
import { Content, picture, textOf } from "./message.js";
import { pretty } from "./pretty.js";
import { Difference, unified } from "./question.js";
import { Copy, html, Lines, visible } from "./ui.js";

export function Details({ call, report }) {
  const { error, content: all = [], discarded } = call.result || {};
  // Images are beneath the line.
  const content = all.filter((one) => !picture(one));
  const values = call.raw && (call.fault || call.phase === "writing") ? call.raw : pretty(JSON.stringify(report.edited || call.arguments || {}));
  const copied = content.some((one) => one.text);
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
      ${error && html`<${Fault} error=${error} />`}
      ${content.length ? html`<div class="output" tabindex="0" role="region" aria-label="Result">
        ${copied && html`<${Copy} text=${textOf(content)} label="Copy this result" />`}
        ${content.map((one) => html`<${Content} content=${one} plain />`)}
      </div>` : error || all.length ? null : html`<p class="dim">It returned nothing.</p>`}`}
    ${report.change && html`<p class="label">It would change, as it was approved</p>
      <div class="output" tabindex="0" role="region" aria-label="Approved changes"><${Difference} lines=${unified(report.change)} /></div>`}
    ${report.changes?.length ? html`<p class="label">Changes</p><ul class="facts">
      ${report.changes.map((one) => html`<li>${visible(one.kind.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase())}
        ${" "}<code>${visible(one.data.path ?? one.data.command ?? one.data.key ?? one.data.pid ?? "")}</code></li>`)}</ul>` : null}
    <p class="dim">${visible(facts.join(" · "))}</p>
  </div>`;
}

/** What went wrong, the output of a program after the first line, and what to do. */
function Fault({ error: { message, suggestion } }) {
  const [first, ...output] = message.split("\n");
  return html`<div class="notice bad"><span>${visible(first)}</span>
    ${output.length ? html`<div class="output"><${Lines} text=${output.join("\n")} /></div>` : null}
    ${suggestion && html`<span>${visible(suggestion)}</span>`}</div>`;
}
