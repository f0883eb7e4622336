// The list of conversations, with what waits in each, and how one is begun.
import { get, post } from "./api.js";
import { html, store, titled, useEffect, useMemo, useState, useStore, when } from "./ui.js";

/** All conversations, newest first; the open questions of each by its identifier; and those that have a run. */
export const conversations = store({ list: null, problem: null });
export const questions = store({});
export const running = store([]);
/** Another number when the list is another one, whatever process has written. */
let changed;

export async function refresh() {
  try {
    const { conversations: list } = await get("chat/conversations");
    conversations.set({ list, problem: null });
  } catch (problem) {
    conversations.set({ ...conversations.value, problem });
  }
}

export async function refreshQuestions() {
  try {
    const { conversations: asked, running: going, changed: now } = await get("chat/questions");
    const same = now === (changed ?? now) && `${[Object.keys(asked), going]}` === `${[Object.keys(questions.value), running.value]}`;
    changed = now;
    questions.set(asked);
    running.set(going);
    if (!same) refresh();
  } catch ({ status }) {
    // Whether something still runs is not known.
    if (!status && running.value.length) running.set([]);
    // The list keeps what it knew; the stream of the open conversation says what is wrong.
  }
}

export const waitingIn = (found) => Object.values(found).reduce((sum, asked) => sum + asked.length, 0);

const DAY = 86_400_000;

function sectionOf(changed) {
  const now = new Date();
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const time = new Date(changed).getTime();
  if (time >= today) return "Today";
  if (time >= today - DAY) return "Yesterday";
  return time >= today - 7 * DAY ? "This week" : "Earlier";
}

/** The list at the left. `chosen` is the open conversation. */
export function List({ chosen, close }) {
  const { list, problem } = useStore(conversations);
  const asked = useStore(questions);
  const going = useStore(running);
  const [search, look] = useState("");
  const [said, hear] = useState([]);
  const words = search.trim();
  // Titles are here; the journal has what was said.
  useEffect(() => {
    hear([]);
    const stop = new AbortController();
    const take = ({ conversations: found }) => hear(found.map((one) => one.identifier));
    const timer = words && setTimeout(() => get(`journal?${new URLSearchParams({ owner: "", limit: 200, search: words })}`, stop.signal).then(take, () => {}), 250);
    return () => (clearTimeout(timer), stop.abort());
  }, [words]);
  const sections = useMemo(() => {
    const wanted = words.toLowerCase();
    const found = new Map();
    const runs = (one) => going.includes(one.identifier);
    // Those with a run are written now.
    for (const one of (list || []).toSorted((one, other) => runs(other) - runs(one))) {
      if (wanted && !titled(one.title).toLowerCase().includes(wanted) && !said.includes(one.identifier)) continue;
      const name = runs(one) ? "Today" : sectionOf(one.changed);
      found.set(name, [...(found.get(name) || []), one]);
    }
    return [...found];
  }, [list, words, said, going]);
  return html`<div class="list">
    <input type="search" class="search" placeholder="Search" aria-label="Search conversations" data-search
      value=${search} onInput=${(event) => look(event.currentTarget.value)} />
    ${problem && !list && html`<p class="dim">${problem.message}</p>`}
    ${list && !sections.length && html`<p class="dim empty">${search ? "No conversation has these words." : "No conversations yet."}</p>`}
    ${sections.map(([name, members]) => html`<h2 key=${name}>${name}</h2><ul>
      ${members.map((one) => html`<li key=${one.identifier}>
        <a href=${`#/chat/${one.identifier}`} aria-current=${one.identifier === chosen ? "page" : null} onClick=${close} title=${titled(one.title)}>
          <span class="title" dir="auto">${titled(one.title)}</span>
          ${asked[one.identifier]?.length
            ? html`<span class="count" title="Questions that wait">${asked[one.identifier].length}<span class="hidden"> waiting</span></span>`
            : going.includes(one.identifier)
            ? html`<span class="pulse" title="Running"><span class="hidden"> running</span></span>`
            : html`<time datetime=${one.changed}>${when(one.changed)}</time>`}
        </a></li>`)}</ul>`)}
  </div>`;
}

/** Set when the user asks for a new conversation, also in one. */
export const wanted = store();
/** A function that says whether the user is still where they are now: an answer that comes late takes them nowhere. */
export function staying() {
  const [place, mark] = [location.hash, wanted.value];
  return () => location.hash === place && wanted.value === mark;
}

/** Begins a conversation, and returns its identifier. */
export const begin = async (title = "") => (await post("chat/conversations", { title })).identifier;
