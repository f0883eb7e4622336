// The view of one conversation: its log, the questions in it, and the composer beneath.
import { begin, conversations, refresh, refreshQuestions, staying } from "./chats.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { item } from "./message.js";
import { Question } from "./question.js";
import { heading, html, Later, plural, store, styled, titled, Trouble, useEffect, useLayoutEffect, useRef, useState, useStore } from "./ui.js";

/** Items that are shown at first, and that each press of a button adds. */
const SHOWN = 100;
/** A conversation that was begun a moment ago, and is opened next. */
let handed = null;
const dialogs = () => styled(import("./dialogs.js"));
/** Why a run can be continued, by the state of the conversation, or by the end of its last run. */
const ENDS = {
  interrupted: "The server ended before this run did. Whole answers and results are kept, and no call that has begun runs again.",
  answered: "Every question has its answer.",
  cancelled: "The run was stopped before its answer was complete.",
};
const NONE = store({ items: [], questions: [], connection: "none" });

export function Chat({ identifier, models }) {
  const [conversation, set] = useState(null);
  useEffect(() => {
    if (!identifier) return set(null);
    const opened = handed?.identifier === identifier ? handed : new Conversation(identifier);
    handed = null;
    set(opened);
    return () => opened.close();
  }, [identifier]);
  const current = conversation?.identifier === identifier ? conversation : null;
  return html`<${Opened} key=${identifier || "new"} conversation=${current} models=${models} name=${identifier || ""} fresh=${!identifier} />`;
}

function Opened({ conversation, models, name, fresh }) {
  const state = useStore(conversation?.state || NONE);
  const [dialog, ask] = useState("");
  const [problem, trouble] = useState(null);
  const { items, questions, connection, running, title } = state;
  const gone = connection === "gone";
  // The lists beside follow what happens here. They know what it was opened with.
  const known = useRef(false);
  useEffect(() => {
    if (fresh) return;
    if (known.current || !conversations.value.list?.some((one) => one.identifier === name)) {
      refresh();
      refreshQuestions();
    }
    known.current = title !== undefined;
  }, [questions.length, running, title, gone]);
  const attempt = async (work) => {
    trouble(null);
    try {
      await work();
    } catch (failure) {
      trouble(failure);
    }
  };
  const say = async (message) => {
    trouble(null);
    if (conversation && !gone) return conversation.say(message);
    const stays = staying();
    const identifier = await begin();
    const opened = new Conversation(identifier);
    await opened.ready;
    await opened.say(message);
    if (stays()) {
      handed = opened;
      location.hash = `#/chat/${identifier}`;
      return;
    }
    opened.close();
    refresh();
    refreshQuestions();
  };
  return html`<main id="main" class="main chat">
    <${Header} title=${fresh ? "New conversation" : title === undefined ? "" : titled(title)}>
      ${connection === "reconnecting" && html`<span class="badge warn" role="status">Reconnecting …</span>`}
      ${state.tokens?.input ? html`<span class="dim tokens" title=${`${state.tokens.input} tokens read, ${state.tokens.output} written`}>
        ${plural(state.tokens.input + state.tokens.output, "token")}</span>` : null}
      ${conversation && !gone && html`<button type="button" class="quiet" onClick=${() => attempt(async () => (await import("./export.js")).save(conversation, title))}>Export</button>
        <button type="button" class="quiet" onClick=${() => ask("Rename")}>Rename</button>
        <button type="button" class="quiet" onClick=${() => ask("Delete")}>Delete</button>`}
    </${Header}>
    <${Log} items=${items} fresh=${fresh} loading=${connection === "loading" && title == null} running=${running && !questions.length} away=${connection === "reconnecting"} asked=${questions.length} place=${state.place} earlier=${() => attempt(() => conversation.earlier())}>
      ${state.problem && html`<${Trouble} problem=${state.problem} />`}
      ${gone && html`<p><a class="button" href="#/">New conversation</a></p>`}
      ${!running && !gone && state.resumable && !questions.length && html`<div class="notice"><p>${ENDS[state.status] || ENDS[state.finish] || "The model has not answered."}</p>
        <button type="button" onClick=${() => attempt(() => conversation.resume())}>${state.again ? "Ask again" : "Continue"}</button></div>`}
      ${questions.map((question) => html`<${Question} key=${question.invocation} identifier=${conversation.identifier} question=${question} changed=${() => conversation.reload()} />`)}
    </${Log}>
    <${Composer} name=${gone ? "" : name} state=${state} models=${models} problem=${problem} say=${say} queue=${(message) => conversation.queue(message)} stop=${() => attempt(() => conversation.stop())} />
    ${dialog && html`<${Later} from=${dialogs} name=${dialog} conversation=${conversation} title=${title} close=${() => ask("")} />`}
  </main>`;
}

/** The line above a view, whose title is that of the tab, too. */
export function Header({ title, children }) {
  useEffect(() => heading.set(title), [title]);
  return html`<header class="header">
    <button type="button" class="quiet drawer-button" data-drawer aria-label="Conversations and views">
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="M2 4h12M2 8h12M2 12h12" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" /></svg></button>
    <h1 dir="auto">${title}</h1>${children}</header>`;
}

function Log({ items, fresh, loading, running, away: unanswered, asked, place: before, earlier, children }) {
  const place = useRef(null);
  const pinned = useRef(true);
  const last = useRef({});
  const [count, show] = useState(SHOWN);
  const [away, leave] = useState(false);
  const shown = items.slice(-count);
  const anchor = useRef(0);
  const follow = () => {
    const box = place.current;
    if (!box) return;
    const { scrollTop, scrollHeight, clientHeight } = box, size = scrollHeight * 1e4 + clientHeight;
    // Otherwise it would move beneath a pointer.
    if (size === last.current.size) return;
    last.current.size = size;
    // It went up, and the event of that comes later.
    const rest = scrollHeight - scrollTop - clientHeight;
    if (scrollTop < last.current.scrollTop && rest > 2) pinned.current = false;
    if (!pinned.current) return leave(rest > 80);
    box.scrollTop = scrollHeight;
    last.current = { size, scrollTop: box.scrollTop, scrollHeight };
  };
  // What the user presses or opens stays where it is; a new run is followed again.
  const hold = ({ button }) => !button && (pinned.current = false);
  useLayoutEffect(() => {
    if (running) [pinned.current, last.current] = [true, {}];
  }, [running]);
  useLayoutEffect(() => {
    const box = place.current;
    if (anchor.current) {
      box.scrollTop += box.scrollHeight - anchor.current;
      anchor.current = 0;
    } else follow();
  });
  useEffect(() => {
    const box = place.current;
    const watch = new ResizeObserver(follow);
    watch.observe(box);
    watch.observe(box.firstElementChild);
    return () => watch.disconnect();
  }, []);
  const scrolled = () => {
    // An event may come after the element has gone.
    if (!place.current) return;
    const { scrollTop, clientHeight, scrollHeight } = place.current;
    // A person goes up, and nothing has changed. Beneath a late picture, the event of an earlier scroll may come first.
    if (scrollHeight - scrollTop - clientHeight < 80) pinned.current = true;
    else if (scrollTop < last.current.scrollTop && scrollHeight === last.current.scrollHeight) pinned.current = false;
    last.current = { ...last.current, scrollTop, scrollHeight };
    leave(!pinned.current);
  };
  const hidden = items.length - count;
  const more = async () => {
    if (before && hidden < SHOWN) await earlier();
    anchor.current = place.current.scrollHeight;
    show(count + SHOWN);
  };
  return html`<div class="scroll"><div class="log" ref=${place} onScroll=${scrolled} tabindex="0" role="region" aria-label="Conversation">
      <div class="column" onMouseDown=${hold} onClick=${hold}>
      ${fresh && html`<div class="welcome"><h2>What shall we do?</h2><p class="dim">The model can use your tools. It asks before it changes something.</p></div>`}
      ${loading && html`<p class="dim">Loading …</p>`}
      ${(hidden > 0 || before > 0) && html`<button type="button" class="earlier" onClick=${more}>
        Show ${before ? `${SHOWN} earlier` : `${Math.min(SHOWN, hidden)} earlier (of ${hidden})`}</button>`}
      ${shown.map(item)}
      ${running && html`<p class="working">${unanswered ? "The server does not answer." : html`<span class="pulse" aria-hidden="true"></span>Working`}</p>`}
      ${children}
      </div></div>
    ${away && !asked && html`<button type="button" class="newest" onClick=${() => (place.current.scrollTop = place.current.scrollHeight)}>Newest</button>`}
  </div>`;
}
