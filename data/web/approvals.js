// The questions of all conversations, and what was allowed for later calls, which can be taken back here.
import { get, send } from "./api.js";
import { Header } from "./chat.js";
import { conversations, questions, refresh, refreshQuestions, waitingIn } from "./chats.js";
import { pretty } from "./pretty.js";
import { Question } from "./question.js";
import { announce, html, Lines, plural, titled, Trouble, useEffect, useLayoutEffect, useRef, useState, useStore, when } from "./ui.js";

const POLL = 3000;

export function Approvals() {
  const asked = useStore(questions);
  const { list } = useStore(conversations);
  const [allowed, set] = useState({});
  const [problem, trouble] = useState(null);
  const look = () => {
    refreshQuestions();
    get("chat/allowances").then(({ conversations: found }) => set(found), () => {});
  };
  const end = async (identifier, one) => {
    trouble(null);
    try {
      await send("DELETE", `chat/conversations/${encodeURIComponent(identifier)}/allowances/${one.identifier}`, undefined);
      announce("Taken back.");
    } catch (failure) {
      // Another tab may have taken it back.
      if (failure.status !== 404) trouble(failure);
    }
    look();
  };
  useEffect(() => {
    refresh();
    look();
    const timer = setInterval(() => document.hidden || look(), POLL);
    return () => clearInterval(timer);
  }, []);
  const titles = new Map((list || []).map((one) => [one.identifier, one.title]));
  const waiting = waitingIn(asked);
  // What had the focus may be gone.
  const place = useRef(null);
  const inside = useRef(false);
  const before = useRef(0);
  useEffect(() => {
    const moved = ({ target }) => (inside.current = place.current?.contains(target));
    document.addEventListener("focusin", moved);
    return () => document.removeEventListener("focusin", moved);
  }, []);
  useLayoutEffect(() => {
    const next = waiting < before.current && place.current.querySelector(".asked");
    if (inside.current && document.activeElement === document.body) (next || place.current).focus();
    before.current = waiting;
  });
  return html`<main id="main" class="main" tabindex="-1" ref=${place}><${Header} title="Approvals" />
    <div class="page"><div class="column stack">
      <p class="dim">${waiting ? `${plural(waiting, "question")} in ${plural(Object.keys(asked).length, "conversation")}.` : "Nothing waits for you."}</p>
      ${Object.entries(asked).map(([identifier, members]) => html`<section class="group" key=${identifier} data-step tabindex="-1" aria-label=${titled(titles.get(identifier))}>
        <h2><a href=${`#/chat/${identifier}`}>${titled(titles.get(identifier))}</a></h2>
        ${members.map((one) => html`<${Question} key=${one.invocation} identifier=${identifier} question=${one} changed=${look} />`)}
      </section>`)}
      <h2>Allowed without a question</h2>
      ${problem && html`<${Trouble} problem=${problem} />`}
      ${Object.keys(allowed).length ? null : html`<p class="dim">Nothing. “Always approve” in a question allows later calls of its conversation; they are listed here and can be taken back.</p>`}
      ${Object.entries(allowed).map(([identifier, members]) => html`<section class="group" key=${identifier} aria-label=${`Allowed in ${titled(titles.get(identifier))}`}>
        <h3><a href=${`#/chat/${identifier}`}>${titled(titles.get(identifier))}</a></h3>
        ${members.map((one) => html`<div class="notice" key=${one.identifier} data-step tabindex="-1">
          <p><code>${one.tool}</code> with ${one.arguments === null ? "any arguments" : "exactly these arguments"}, since ${when(one.at)}</p>
          <button type="button" onClick=${() => end(identifier, one)}>Take back<span class="hidden"> ${one.tool}</span></button>
          ${one.arguments !== null && html`<div class="output" tabindex="0" role="region" aria-label="Arguments"><${Lines} text=${pretty(one.arguments)} /></div>`}
        </div>`)}
      </section>`)}
    </div></div></main>`;
}
