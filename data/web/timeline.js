// The calls of a recorded conversation, as bars over time and as a table; and the tokens of each turn.
import { get } from "./api.js";
import { duration, html, plural, Trouble, useLoaded, useState, visible, when } from "./ui.js";

const ROW = 26;
const WIDTH = 860;
const NAMES = 210;

export function Calls({ path, tokens }) {
  const [part, go] = useState(0);
  const [found, problem, again] = useLoaded(() => get(`${path}/calls?part=${part}`), path + part);
  if (problem) return html`<${Trouble} problem=${problem} again=${again} />`;
  if (!found) return html`<p class="dim">Loading …</p>`;
  const move = (by, name) => html`<button type="button" onClick=${() => go(part + by)}>${name}</button>`;
  const bar = html`<p class="bar">${part > 0 && move(-1, "Earlier")}${found.more && move(1, "Later")}</p>`;
  if (tokens) return html`<${Tokens} turns=${found.turns} sum=${found.tokens} />${bar}`;
  if (!found.count) return html`<p class="dim">No calls were made.</p>`;
  const calls = found.calls.map((one) => ({ ...one, from: Date.parse(one.start) }));
  const known = calls.filter((one) => Number.isFinite(one.from)).map((one) => one.from);
  const first = Math.min(...known);
  return html`<${Bars} calls=${calls} first=${first} /><${Table} calls=${calls} first=${first} />${bar}
    ${found.allowed.length > 0 && html`<h2>Allowed without a question</h2><${Allowed} lines=${found.allowed} />`}`;
}

const kindOf = ({ state }) => (/fail|error|timeout/.test(state) ? "failed" : /deni|cancel|never/.test(state) ? "denied" : "span");

function Bars({ calls, first }) {
  const shown = calls.filter((one) => Number.isFinite(one.from));
  const last = Math.max(...shown.map((one) => one.from + (one.seconds || 0) * 1000), first + 1);
  const across = (time) => NAMES + ((time - first) / (last - first)) * (WIDTH - NAMES - 70);
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => first + part * (last - first));
  return html`<div class="wide" tabindex="0" role="region" aria-label="Timeline">
    <svg class="timeline" viewBox=${`0 0 ${WIDTH} ${shown.length * ROW + 26}`} role="img" aria-label=${`Timeline of ${plural(shown.length, "call")}; the table below has the same.`}>
      ${marks.map((time) => html`<line class="axis" x1=${across(time)} x2=${across(time)} y1="0" y2=${shown.length * ROW} />
        <text class="scale" x=${across(time)} y=${shown.length * ROW + 18} text-anchor="middle">${duration(time - first)}</text>`)}
      ${shown.map((one, row) => {
        const width = Math.max(((one.seconds || 0) * 1000 / (last - first)) * (WIDTH - NAMES - 70), 3);
        const name = visible(one.name);
        return html`<text x="0" y=${row * ROW + 17}>${name.length > 30 ? `${name.slice(0, 29)}…` : name}</text>
          <rect class=${kindOf(one)} x=${across(one.from)} y=${row * ROW + 6} width=${width} height="14" rx="4" />`;
      })}
    </svg></div>`;
}

function Table({ calls, first }) {
  return html`<div class="wide" tabindex="0" role="region" aria-label="Calls"><table>
    <thead><tr><th scope="col">Tool</th><th scope="col">State</th><th scope="col">Began</th><th scope="col">Took</th><th scope="col">Attempts</th><th scope="col">Turn</th><th scope="col">Sandbox</th></tr></thead>
    <tbody>${calls.map((one, at) => html`<tr key=${at} data-step tabindex="-1"><td><code>${visible(one.name)}</code></td><td>${visible(one.state)}</td>
      <td>${Number.isFinite(one.from) ? duration(one.from - first) : "never"}</td><td>${one.seconds == null ? "" : duration(one.seconds * 1000)}</td>
      <td>${one.attempts ?? ""}</td><td>${one.turn}</td><td>${visible(one.sandbox ?? "")}</td></tr>`)}</tbody></table></div>`;
}

function Allowed({ lines }) {
  return html`<div class="wide" tabindex="0" role="region" aria-label="Allowed without a question"><table>
    <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Tool</th><th scope="col">Arguments</th><th scope="col">By</th></tr></thead>
    <tbody>${lines.map((one, at) => html`<tr key=${at}><td>${when(one.at)}</td><td>${one.state}</td><td><code>${visible(one.tool)}</code></td>
      <td>${one.arguments === null ? "any" : html`exactly <code>${visible(one.arguments)}</code>`}</td><td>${visible(one.caller) || "you"}</td></tr>`)}</tbody></table></div>`;
}

function Tokens({ turns, sum }) {
  if (!turns.length) return html`<p class="dim">No tokens were counted.</p>`;
  return html`<div class="wide" tabindex="0" role="region" aria-label="Tokens"><table>
    <thead><tr><th scope="col">Turn</th><th scope="col">Model</th><th scope="col">Read</th><th scope="col">Written</th></tr></thead>
    <tbody>${turns.map((one) => html`<tr key=${one.turn}><td>${one.turn}</td><td>${visible(one.model)}</td><td>${one.input.toLocaleString("en")}</td><td>${one.output.toLocaleString("en")}</td></tr>`)}</tbody>
    <tfoot><tr><th scope="row">All</th><td></td><td>${sum.input.toLocaleString("en")}</td><td>${sum.output.toLocaleString("en")}</td></tr></tfoot></table></div>`;
}
