// One open conversation: its snapshot, its events, and what a person does to it.
import { get, post } from "./api.js";
import { ENDS, Items } from "./items.js";
import { events } from "./stream.js";
import { announce, store, visible } from "./ui.js";

const pause = (milliseconds, signal) =>
  new Promise((go) => {
    const timer = setTimeout(go, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), go()));
  });

const tell = (questions) => announce(`${questions.map((one) => `Asked: may ${visible(one.tool || one.name)} run?`).join(" ")} Esc in the message field goes there.`);

const textOf = (message) => message.content.map((one) => one.text || "").join("\n").slice(0, 200);

/** Messages that are loaded at once: `place` counts those before. */
const PART = 200;

export class Conversation {
  constructor(identifier) {
    this.identifier = identifier;
    this.path = `chat/conversations/${encodeURIComponent(identifier)}`;
    this.items = new Items();
    // connection: "loading", "live", "reconnecting", "gone" (there is none), or "lost" (with a problem).
    this.state = store({ connection: "loading", items: [], questions: [], tokens: { input: 0, output: 0 }, running: false });
    this.position = "";
    this.drawing = 0;
    // When the first snapshot is here, or failed: nothing that happens afterwards is missed.
    this.ready = new Promise((go) => (this.begun = go));
    this.seeing = () => this.follow();
    document.addEventListener("visibilitychange", this.seeing);
    this.follow();
  }

  close() {
    document.removeEventListener("visibilitychange", this.seeing);
    this.stopped?.abort();
    this.closed = true;
  }

  /** Follows the events while the tab is visible: browsers allow few streams, and hidden tabs need none. */
  follow() {
    // A message that waits is sent also from a hidden tab.
    if (document.hidden && this.state.value.queued && !this.closed) return;
    this.stopped?.abort();
    if (document.hidden || this.closed) return;
    this.stopped = new AbortController();
    this.run(this.stopped.signal);
  }

  async run(signal) {
    let wait = 250;
    while (!signal.aborted) {
      try {
        if (!this.position) await this.load(signal);
        this.begun();
        for await (const batch of events(this.identifier, this.position, signal)) {
          if (signal.aborted) return;
          wait = 250;
          if (this.state.value.connection !== "live") this.set({ connection: "live", problem: null });
          if (!batch.every(([position, event]) => this.take(position, event))) break;
        }
        if (!this.position) continue;
      } catch (problem) {
        this.begun();
        if (signal.aborted || problem.status === 401) return;
        if (problem.status === 404) return this.leave();
        if (!this.state.value.title) this.set({ problem });
      }
      if (signal.aborted) return;
      this.set({ connection: "reconnecting" });
      await pause(wait, signal);
      wait = Math.min(wait * 2, 8000);
    }
  }

  /** It was deleted, or there was none. What waits for the end of its run goes back to the field. */
  leave() {
    this.items = new Items();
    const message = `${this.position || this.state.value.title !== undefined ? "This conversation was deleted" : "There is no such conversation. It may have been deleted"}. The next message begins a new one.`;
    this.set({ connection: "gone", problem: { message }, title: "Not found", questions: [], running: false, resumable: true, place: 0 });
  }

  async load(signal) {
    const found = await get(`${this.path}?limit=${PART}`, signal);
    const running = found.state === "running";
    this.items = Items.of(found);
    this.items.live(found.turn);
    if (!running) this.items.end(found.turn.length && !ENDS[found.finish] ? "cut" : found.finish);
    this.items.elsewhere(found.calls);
    const answered = Object.entries(found.answered);
    for (const [call, answer] of answered) this.items.answered(call, answer, !found.questions.length);
    this.position = found.position;
    const last = found.messages.at(-1)?.type;
    const known = new Set(this.state.value.questions.map((one) => one.invocation));
    const fresh = found.questions.filter((one) => !known.has(one.invocation));
    if (fresh.length) tell(fresh);
    this.set({
      title: found.title,
      model: found.model,
      agent: found.agent,
      tokens: found.tokens,
      place: found.place,
      questions: found.questions,
      running,
      finish: found.finish,
      elsewhere: found.elsewhere,
      status: answered.length && found.state === "interrupted" ? "answered" : found.state,
      // Without a whole answer since the user's message, the model begins anew.
      again: found.state === "idle" && last === "user",
      resumable: found.state === "interrupted" || (found.state === "idle" && (last === "user" || (last === "result" && found.finish !== "terminal"))),
      problem: null,
    });
  }

  /** Loads the messages before those that are here. */
  async earlier() {
    const { items } = this;
    const part = await get(`${this.path}/messages?limit=${PART}&before=${this.state.value.place}`);
    if (items !== this.items) return; // A new snapshot has others.
    items.before(part);
    this.set({ place: part.place });
  }

  /** Takes an event. False if a new snapshot is needed. */
  take(position, event) {
    if (position) this.position = position;
    const { state, items } = this;
    switch (event.type) {
      case "Resync":
        this.position = "";
        return false;
      case "Said":
        // The open calls were denied with this text: the snapshot says what became of them.
        if (state.value.questions.length) {
          this.position = "";
          return false;
        }
        items.turn = items.list.length;
        items.message(event.message, event.place);
        items.turn = items.list.length;
        this.later({ running: true, resumable: false, again: true, problem: null, title: state.value.title || textOf(event.message) });
        break;
      case "QuestionsAsked":
        this.later({ questions: event.questions });
        tell(event.questions);
        break;
      case "QuestionAnswered": {
        const questions = state.value.questions.filter((one) => one.invocation !== event.invocation);
        if (questions.length) items.answered(event.invocation, event.answer);
        else items.goOn();
        // The run goes on after the last answer.
        this.later({ questions, ...(questions.length ? {} : { running: true, resumable: false }) });
        break;
      }
      case "RunFailed":
        items.end();
        items.add({ kind: "notice", tone: "bad", text: event.message });
        this.later({ running: false, resumable: true, finish: "error" });
        announce(`Failed: ${visible(event.message)}`);
        break;
      case "ConductEnded":
        this.later({ running: false, status: "idle", finish: event.finish, ...(event.finish === "cancelled" ? { resumable: true } : {}) });
        items.end(event.finish);
        if (!state.value.questions.length) announce(ENDS[event.finish] || "Done.");
        break;
      case "Titled":
        this.later({ title: event.title });
        break;
      case "Alert":
        items.add({ kind: "notice", text: event.message });
        break;
      default:
        items.take(event);
        this.folded(event);
    }
    this.later({});
    return true;
  }

  folded(event) {
    const { tokens, running } = this.state.value;
    if (event.type === "TurnEnded") this.later({ again: false });
    if (event.type === "TurnEnded" && event.usage) {
      const { input_tokens: input = 0, output_tokens: output = 0 } = event.usage;
      this.later({ tokens: { input: tokens.input + input, output: tokens.output + output } });
    }
    if (event.type === "ContentSealed" && event.content.type === "text") announce(visible(event.content.text));
    if ((event.type === "TurnBegan" || event.type === "ExecutionBegan") && !running) this.later({ running: true, resumable: false });
  }

  /** Changes the state; it is drawn with the next frame, together with all that comes before it. */
  later(fields) {
    Object.assign(this.state.value, fields);
    if (document.hidden) return this.set({});
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => this.set({}));
  }

  set(fields) {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    this.state.set({ ...this.state.value, ...fields, items: this.items.list.slice() });
  }

  say({ text, files, model, agent }) {
    return post(`${this.path}/messages`, {
      text,
      ...(files.length ? { attachments: files } : {}),
      ...(model ? { model } : {}),
      ...(agent === null ? {} : { agent }),
    });
  }

  /** Keeps a message until the run ends; null takes it back. */
  queue(message) {
    this.set({ queued: message });
    if (document.hidden) this.follow();
  }

  stop() {
    return post(`${this.path}/stop`);
  }

  /** Takes a new snapshot, with what other tabs have done meanwhile. */
  async reload() {
    this.position = "";
    this.follow();
  }

  resume() {
    return post(`${this.path}/resume`);
  }
}

/** Sends the answer to a question. `values` is a text of JSON, in which no number loses digits. */
export function answer(identifier, question, fields, values) {
  const body = JSON.stringify({ invocation: question.invocation, digest: question.digest, ...fields });
  const path = `chat/conversations/${encodeURIComponent(identifier)}/answers`;
  return post(path, values === undefined ? body : `${body.slice(0, -1)},"arguments":${values}}`);
}

/** The question with other arguments, which are a text of JSON. Nothing runs. */
export async function revise(identifier, question, values) {
  const body = JSON.stringify({ invocation: question.invocation, digest: question.digest });
  const found = await post(`chat/conversations/${encodeURIComponent(identifier)}/revisions`, `${body.slice(0, -1)},"arguments":${values}}`);
  return found.question;
}

/** Sends the result of a call that its client runs. */
export const deliver = (identifier, invocation, text) =>
  post(`chat/conversations/${encodeURIComponent(identifier)}/results`, { invocation, text });
