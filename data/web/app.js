// The whole page: sign-in, the list and the views beside it, the keys, and the one live region.
import { changes, get, session, signIn } from "./api.js";
import { Chat, Header } from "./chat.js";
import { List, questions, refresh, refreshQuestions, running, waitingIn, wanted } from "./chats.js";
import { choose, colours, listen } from "./keys.js";
import { announcement, heading, html, Later, render, styled, useEffect, useLayoutEffect, useRef, useState, useStore } from "./ui.js";

const POLL = 5000;
/** What a chat does not need is loaded after it: each view is the component of this name. */
const VIEWS = {
  approvals: ["Approvals", () => styled(import("./approvals.js"))],
  journal: ["Journal", () => styled(import("./journal.js"))],
  tools: ["Tools", () => styled(import("./tools.js"))],
  replay: ["Replay", () => styled(import("./replay.js"))],
};
const signing = () => import("./sign_in.js");
const dialogs = () => styled(import("./dialogs.js"));
/** Loads all of it, so that it is there while the server is away: some browsers never try a module again that they did not get. */
const loadAll = () =>
  [signing, dialogs, ...Object.values(VIEWS).map(([, from]) => from), () => import("./answers.js"), () => import("./details.js"), () => import("./export.js"), () => import("./form.js"), () => import("./rewrite.js")]
    .forEach((from) => from().catch(() => {}));

function useRoute() {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    addEventListener("hashchange", changed);
    changed(); // It may have changed before.
    return () => removeEventListener("hashchange", changed);
  }, []);
  return hash.replace(/^#\/?/, "").split("/").map(decode);
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function App() {
  const { state, reason } = useStore(session);
  if (state === "starting") return html`<p class="splash dim">Signing in …</p>`;
  return html`${state === "out" ? html`<${Later} from=${signing} name="SignIn" reason=${reason} />` : html`<${Inside} />`}<${Live} />`;
}

function Live() {
  return html`<div class="hidden" role="status" aria-live="polite" data-live>${useStore(announcement)}</div>`;
}

function Inside() {
  const [view = "", name = ""] = useRoute();
  const asked = useStore(questions);
  const [models, set] = useState({});
  const [drawer, open] = useState(false);
  const [help, explain] = useState(false);
  const close = () => open(false);
  useEffect(() => {
    get("models").then(set, () => {});
    refresh();
    refreshQuestions();
    (globalThis.requestIdleCallback || setTimeout)(loadAll);
    // Also while hidden, without a stream: the title says what waits.
    const timer = setInterval(refreshQuestions, POLL);
    const seen = () => document.hidden || (refresh(), refreshQuestions());
    document.addEventListener("visibilitychange", seen);
    const left = changes.subscribe(seen);
    const stop = listen({ help: () => explain(true), escape: () => document.querySelector(".drawn") && (close(), true) });
    return () => (clearInterval(timer), left(), stop(), document.removeEventListener("visibilitychange", seen));
  }, []);
  const waiting = waitingIn(asked);
  const going = useStore(running);
  const shown = useStore(heading);
  // Of all conversations what waits, or else that an answer runs; of the one that is shown, that it runs, too.
  const runs = waiting ? view === "chat" && going.includes(name) && !asked[name] : going.length > 0;
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${runs ? "… " : ""}${shown ? `${shown} · ` : ""}ripieno`;
  }, [waiting, runs, shown]);
  // At once: later, it could close a list that was opened meanwhile.
  useLayoutEffect(close, [view, name]);
  const side = useRef(null);
  const drawn = useRef(false);
  useEffect(() => {
    const focused = document.activeElement;
    if (drawer) side.current.querySelector("a, button")?.focus();
    else if (drawn.current && (focused === document.body || side.current.contains(focused))) document.querySelector("[data-drawer]")?.focus();
    drawn.current = drawer;
  }, [drawer]);
  const clicked = (event) => event.target.closest("[data-drawer]") && open(!drawer);
  const [title, from] = (Object.hasOwn(VIEWS, view) && VIEWS[view]) || [];
  return html`<div class=${`frame ${drawer ? "drawn" : ""}`} onClick=${clicked}>
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.querySelector("#message, main")?.focus())}>Skip to the content</a>
    <nav class="side" ref=${side} aria-label="Conversations and views">
      <div class="brand"><span class="logo" aria-hidden="true"></span>ripieno</div>
      <a class="button primary new" href="#/" onClick=${() => (close(), wanted.set({}))}>New conversation</a>
      <${List} chosen=${view === "chat" ? name : ""} close=${close} />
      <div class="views">
        ${Object.entries(VIEWS).map(([path, [title]]) => html`<a key=${path} href=${`#/${path}`} aria-current=${view === path ? "page" : null} onClick=${close}>${title}
          ${path === "approvals" && waiting ? html`<span class="count">${waiting}<span class="hidden"> waiting</span></span>` : null}</a>`)}
        <button type="button" class="quiet" onClick=${() => explain(true)}>Keys and colours</button>
      </div>
    </nav>
    ${drawer && html`<button type="button" class="shade" aria-label="Close the list" onClick=${close}></button>`}
    ${from ? html`<${Later} key=${view} from=${from} name=${title} path=${name}
      around=${(trouble) => html`<main id="main" class="main" tabindex="-1"><${Header} title=${title} /><div class="page">${trouble}</div></main>`} />` : html`<${Chat} identifier=${view === "chat" ? name : ""} models=${models} />`}
    ${help && html`<${Later} from=${dialogs} name="Help" close=${() => explain(false)} />`}
  </div>`;
}

choose(colours());
signIn();
// A new link in this tab: only its fragment differs.
addEventListener("hashchange", ({ oldURL }) => location.hash.startsWith("#code=") && signIn(undefined, new URL(oldURL).hash));
render(html`<${App} />`, document.getElementById("page"));
