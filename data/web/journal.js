// The journal: all recorded conversations, and of one its transcript, its calls and its tokens.
import { get, post } from "./api.js";
import { Header } from "./chat.js";
import { Items } from "./items.js";
import { item } from "./message.js";
import { Calls } from "./timeline.js";
import { announce, html, plural, titled, Trouble, useEffect, useLoaded, useState, visible, when } from "./ui.js";

const PAUSE = 250;

export function Journal({ path }) {
  return path ? html`<${Recorded} key=${path} identifier=${path} />` : html`<${Index} />`;
}

function Index() {
  const [search, look] = useState("");
  const [wanted, want] = useState("");
  const [more, add] = useState([]);
  const [problem, trouble] = useState(null);
  useEffect(() => {
    const timer = setTimeout(() => want(search.trim()), PAUSE);
    return () => clearTimeout(timer);
  }, [search]);
  useEffect(() => add([]), [wanted]);
  const address = (before) => `journal?${new URLSearchParams({ limit: 50, ...(wanted ? { search: wanted } : {}), ...(before ? { before } : {}) })}`;
  const [found, failed, again] = useLoaded(() => get(address()), wanted);
  const pages = [found, ...more].filter(Boolean);
  const rows = pages.flatMap((page) => page.conversations);
  const left = pages.at(-1)?.next;
  const next = async () => {
    try {
      add([...more, await get(address(left))]);
    } catch (failure) {
      trouble(failure);
    }
  };
  return html`<main id="main" class="main" tabindex="-1"><${Header} title="Journal" />
    <div class="page">
      <div class="bar"><input type="search" class="search" data-search placeholder="Search what was said" aria-label="Search the journal" value=${search}
        onInput=${(event) => look(event.currentTarget.value)} /></div>
      ${(failed || problem) && html`<${Trouble} problem=${failed || problem} again=${again} />`}
      ${!found && !failed && html`<p class="dim">Loading …</p>`}
      ${found && !rows.length && html`<p class="dim">${left ? "Nothing so far." : wanted ? "No conversation has these words." : "The journal is empty."}</p>`}
      ${rows.length > 0 && html`<ul class="rows">${rows.map((one) => html`<li key=${one.identifier}>
        <a class="row" data-step href=${`#/journal/${one.identifier}`}>
          <span class="title" dir="auto">${titled(one.title)}</span><time class="dim-time" datetime=${one.changed}>${when(one.changed)}</time>
          <span class="dim">${[one.model && visible(one.model), one.turns ? plural(one.turns, "turn") : "", plural(one.calls, "call"), one.refused ? `${one.refused} not run` : "", tokensOf(one), one.caller && visible(one.caller), one.finish === null ? "not finished" : ""].filter(Boolean).join(" · ")}</span>
          ${one.match && html`<span class="match" dir="auto">${marked(one.match, wanted)}</span>`}
        </a></li>`)}</ul>`}
      ${left && html`<p class="bar"><button type="button" onClick=${next}>Show more</button></p>`}
    </div></main>`;
}

/** The text with what was searched for in it. */
function marked(text, wanted) {
  const parts = text.split(wanted).map(visible);
  return parts.map((part, at) => html`${at ? html`<mark>${visible(wanted)}</mark>` : ""}${part}`);
}

const tokensOf = ({ tokens: { input, output } }) => (input || output ? plural(input + output, "token") : "");

const TABS = [["transcript", "Transcript"], ["calls", "Calls"], ["tokens", "Tokens"]];

function Recorded({ identifier }) {
  const path = `journal/${encodeURIComponent(identifier)}`;
  const [tab, choose] = useState("transcript");
  const [found, problem, again] = useLoaded(() => get(path), identifier);
  const [earlier, add] = useState([]);
  const [said, say] = useState(null);
  const pages = found ? [...earlier, found] : [];
  const attempt = async (work) => {
    try {
      await work();
    } catch (failure) {
      say({ bad: true, text: failure.message });
    }
  };
  const verify = () =>
    attempt(async () => {
      const result = await post(`${path}/verify`);
      say({ bad: !result.valid, text: result.message });
      announce(result.message);
    });
  const fork = (at) =>
    attempt(async () => {
      const { identifier: forked } = await post(`${path}/fork`, { at });
      location.hash = `#/chat/${forked}`;
    });
  const before = () => attempt(async () => add([await get(`${path}?before=${pages[0].place}`), ...earlier]));
  const chosen = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const at = (TABS.findIndex(([one]) => one === tab) + by + TABS.length) % TABS.length;
    choose(TABS[at][0]);
    event.currentTarget.children[at].focus();
  };
  return html`<main id="main" class="main" tabindex="-1"><${Header} title=${found ? titled(found.title) : "Journal"}>
      <a class="button quiet" href="#/journal">All</a>
      ${found?.chat !== false && html`<a class="button quiet" href=${`#/chat/${identifier}`}>Open</a>`}
      <button type="button" class="quiet" onClick=${verify}>Verify</button></${Header}>
    <div class="page">
      ${problem && html`<${Trouble} problem=${problem} again=${again} />`}
      ${said && html`<p class=${`notice ${said.bad ? "bad" : ""}`} role="status">${visible(said.text)}</p>`}
      <div class="tabs" role="tablist" aria-label="Parts" onKeyDown=${chosen}>${TABS.map(([one, title]) => html`<button type="button" role="tab" id=${`tab-${one}`}
        aria-selected=${one === tab ? "true" : "false"} aria-controls="panel" tabindex=${one === tab ? 0 : -1} onClick=${() => choose(one)}>${title}</button>`)}</div>
      <div id="panel" role="tabpanel" aria-labelledby=${`tab-${tab}`} tabindex="0">
        ${tab === "transcript" ? html`<div class="column">
          ${pages[0]?.more && html`<button type="button" class="earlier" onClick=${before}>Show earlier</button>`}
          <${Transcript} pages=${pages} fork=${fork} /></div>` : html`<${Calls} path=${path} tokens=${tab === "tokens"} />`}
      </div>
    </div></main>`;
}

function Transcript({ pages, fork }) {
  const items = new Items();
  const cuts = new Set(pages.flatMap((page) => page.cuts));
  const unfinished = pages.flatMap((page) => page.unfinished);
  let place = pages[0]?.place || 0;
  const offer = () => {
    if (cuts.has(place)) items.add({ kind: "cut", at: place });
  };
  offer();
  for (const message of pages.flatMap((page) => page.messages)) {
    items.message(message);
    place += 1;
    items.unfinished(unfinished, place);
    offer();
  }
  return items.list.map((one) =>
    one.kind === "cut"
      ? html`<div class="cut" key=${`cut-${one.at}`}><button type="button" class="quiet" onClick=${() => fork(one.at)}>Fork here</button></div>`
      : item(one),
  );
}
