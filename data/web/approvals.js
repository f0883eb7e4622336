// The questions of all conversations, live ones and those that waited through a restart.
import { Header } from "./chat.js";
import { conversations, questions, refresh, refreshQuestions, waitingIn } from "./chats.js";
import { Question } from "./question.js";
import { html, plural, titled, useEffect, useStore } from "./ui.js";

const POLL = 3000;

export function Approvals() {
  const asked = useStore(questions);
  const { list } = useStore(conversations);
  useEffect(() => {
    refresh();
    refreshQuestions();
    const timer = setInterval(() => document.hidden || refreshQuestions(), POLL);
    return () => clearInterval(timer);
  }, []);
  const titles = new Map((list || []).map((one) => [one.identifier, one.title]));
  const waiting = waitingIn(asked);
  return html`<main id="main" class="main" tabindex="-1"><${Header} title="Approvals" />
    <div class="page"><div class="column stack">
      <p class="dim">${waiting ? `${plural(waiting, "question")} in ${plural(Object.keys(asked).length, "conversation")}.` : "Nothing waits for you."}</p>
      ${Object.entries(asked).map(([identifier, members]) => html`<section class="group" key=${identifier} data-step tabindex="-1" aria-label=${titled(titles.get(identifier))}>
        <h2><a href=${`#/chat/${identifier}`}>${titled(titles.get(identifier))}</a></h2>
        ${members.map((one) => html`<${Question} key=${one.invocation} identifier=${identifier} question=${one} changed=${refreshQuestions} />`)}
      </section>`)}
    </div></div></main>`;
}
