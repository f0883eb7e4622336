// Steps through a recorded cassette. Nothing here is live: no model is asked and no tool runs.
import { get } from "./api.js";
import { Header } from "./chat.js";
import { html, Lines, Trouble, useLoaded, useState, visible } from "./ui.js";

export function Replay({ path }) {
  return path ? html`<${Steps} key=${path} name=${path} />` : html`<${Cassettes} />`;
}

function Cassettes() {
  const [found, problem, again] = useLoaded(() => get("cassettes"), "cassettes");
  return html`<main id="main" class="main" tabindex="-1"><${Header} title="Replay" /><div class="page">
    ${problem && html`<${Trouble} problem=${problem} again=${again} />`}
    ${found && !found.cassettes.length && html`<p class="dim">No cassette is here. To record one: <code>ripieno ask --record</code></p>`}
    ${found?.cassettes.length ? html`<ul class="rows">${found.cassettes.map((one) => html`<li key=${one.name}>
      <a class="row" data-step href=${`#/replay/${encodeURIComponent(one.name)}`}><span class="title">${visible(one.name)}</span></a></li>`)}</ul>` : null}
  </div></main>`;
}

function Steps({ name }) {
  const [found, problem, again] = useLoaded(() => get(`cassettes/${encodeURIComponent(name)}`), name);
  const [at, go] = useState(0);
  const steps = found?.steps || [];
  const step = steps[at];
  return html`<main id="main" class="main" tabindex="-1"><${Header} title=${visible(name)}><span class="badge warn">Not live</span>
    <a class="button quiet" href="#/replay">All</a></${Header}>
    <div class="page"><div class="column stack">
      ${problem && html`<${Trouble} problem=${problem} again=${again} />`}
      ${step && html`<div class="bar">
          <button type="button" disabled=${at === 0} onClick=${() => go(at - 1)}>Previous</button>
          <button type="button" class="primary" disabled=${at === steps.length - 1} onClick=${() => go(at + 1)}>Next</button>
          <span class="dim" role="status">Step ${at + 1} of ${steps.length}</span></div>
        <h2>${visible(step.title)}</h2>
        <div class="output open" tabindex="0" role="region" aria-label="Step"><${Lines} text=${step.text} /></div>`}
      ${found && !steps.length && html`<p class="dim">This cassette is empty.</p>`}
    </div></div></main>`;
}
