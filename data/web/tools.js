// The tools that models are offered, and for each ensemble that is missing, the reason.
import { get } from "./api.js";
import { Header } from "./chat.js";
import { pretty } from "./pretty.js";
import { html, Lines, plural, Trouble, useLoaded, useState, visible } from "./ui.js";

const LOOKS = { enabled: "good", missing: "bad", "left out": "warn" };

export function Tools() {
  const [found, problem, again] = useLoaded(() => get("tools"), "tools");
  const [search, look] = useState("");
  const wanted = search.trim().toLowerCase();
  const fits = (text) => !wanted || text.toLowerCase().includes(wanted);
  const shown = (found?.ensembles || [])
    .map((one) => (fits(one.name) ? one : { ...one, tools: one.tools.filter((tool) => fits(tool.name) || fits(tool.description)), some: true }))
    .filter((one) => !one.some || one.tools.length);
  return html`<main id="main" class="main" tabindex="-1"><${Header} title="Tools" />
    <div class="page"><div class="stack">
      <div class="bar"><input type="search" class="search" data-search placeholder="Search tools" aria-label="Search tools" value=${search}
        onInput=${(event) => look(event.currentTarget.value)} />
        <button type="button" onClick=${again}>Look again</button></div>
      ${problem && html`<${Trouble} problem=${problem} again=${again} />`}
      ${!found && !problem && html`<p class="dim">Loading …</p>`}
      ${found?.problems?.length ? html`<section class="group" aria-label="Problems"><h2>Problems</h2>
        ${found.problems.map((one) => html`<div class="notice bad"><div><p>${visible(one.message)}</p>
          ${one.file && html`<p><code>${visible(one.file)}${one.line ? `:${one.line}` : ""}</code></p>`}
          ${one.hint && html`<p>${visible(one.hint)}</p>`}</div></div>`)}</section>` : null}
      ${found && !shown.length && html`<p class="dim">No tool has these words.</p>`}
      ${shown.map((one) => html`<${Ensemble} key=${one.name} one=${one} open=${Boolean(wanted)} />`)}
    </div></div></main>`;
}

function Ensemble({ one, open }) {
  const { tools } = one;
  return html`<details class="ensemble" data-step tabindex="-1" open=${open}>
    <summary><h2>${visible(one.name)}</h2><span class=${`badge ${LOOKS[one.state] || ""}`}>${visible(one.state)}</span>
      <span class="space"></span>
      <span class="dim">${[tools.length && plural(tools.length, "tool"), one.origin && visible(one.origin)].filter(Boolean).join(" · ")}</span>
      ${one.reason && html`<span class="dim why">${visible(one.reason)}</span>`}</summary>
    <div class="inside">${tools.length ? tools.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} />`) : html`<p class="dim">Its tools are known when it is connected.</p>`}</div>
  </details>`;
}

function Tool({ tool }) {
  const [open, set] = useState(false);
  return html`<div class="tool">
    <p><code>${visible(tool.name)}</code> <span class=${`badge ${tool.effect}`}>${visible(tool.effect)}</span></p>
    <p class="dim" dir="auto">${visible(tool.description)}</p>
    ${tool.reason && html`<p class="wrong">${visible(tool.reason)}</p>`}
    ${tool.arguments && html`<details open=${open} onToggle=${(event) => set(event.currentTarget.open)}><summary class="dim">Arguments</summary>
      ${open && html`<div class="output" tabindex="0" role="region" aria-label="Arguments"><${Lines} text=${pretty(JSON.stringify(tool.arguments))} /></div>`}</details>`}
  </div>`;
}
