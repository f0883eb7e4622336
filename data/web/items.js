// What a log shows, made from the messages of a conversation and the events of a run. An item is replaced, never
// changed, so that only what is new is drawn. Kinds: user, text, reasoning, content, call, aside, notice.

/** What is said of the end of a run, if it is not the usual one. */
export const ENDS = {
  cancelled: "Stopped.",
  limit: "A limit ended this run.",
  cut: "This answer was cut off.",
  length: "The run ended with 'length': its last answer is not complete.",
  filter: "The run ended with 'filter': its last answer is not complete.",
};

/** Questions that were approved here, until their calls have results: one that has changed meanwhile is asked again. */
export const approved = new Map();

/** The items of one conversation. */
export class Items {
  constructor() {
    this.list = [];
    // The first item of the turn under way.
    this.turn = 0;
    this.count = 0;
    this.first = 0;
  }

  /** The items of whole messages, of which `place` are before these, and of answers after them that are not complete. */
  static of({ messages, place, unfinished }) {
    const items = new Items();
    messages.forEach((message, at) => {
      items.message(message, place + at);
      items.unfinished(unfinished, place + at + 1);
    });
    items.turn = items.list.length;
    return items;
  }

  /** Adds the items of earlier messages, which end with a whole turn. */
  before(part) {
    const { list } = Items.of(part);
    this.first -= list.length;
    this.turn += list.length;
    this.list.unshift(...list.map((one) => ({ ...one, key: one.key + this.first })));
  }

  add(item) {
    this.list.push({ ...item, key: this.count++ });
  }

  change(at, fields) {
    this.list[at] = { ...this.list[at], ...fields };
  }

  /** The place of the last item that passes a test, -1 without one. */
  last(test, from = 0) {
    for (let at = this.list.length - 1; at >= from; at--) if (test(this.list[at])) return at;
    return -1;
  }

  /** Adds a message. In a conversation, `place` counts those before it. */
  message(message, place) {
    switch (message.type) {
      case "user":
        this.add({ kind: "user", content: message.content, at: message.timestamp, place });
        break;
      case "assistant":
        for (const content of message.content || []) this.content(content);
        break;
      case "invocation":
        this.add({ kind: "call", ...callOf(message), phase: "open" });
        break;
      case "result":
        this.result(message.invocation_id, message);
        break;
      default:
        this.add({ kind: "aside", title: message.title || message.type, content: message.content });
    }
  }

  /** Adds what is there of answers that are not complete. */
  unfinished(all, place) {
    for (const { texts, finish } of all.filter((one) => one.place === place)) {
      this.live(texts);
      this.end(ENDS[finish] ? finish : "cut");
    }
  }

  /** Ends a run: what the model has written stays, but no call that is incomplete. */
  end(finish) {
    this.list = this.list.filter((one) => one.phase !== "writing");
    this.seals();
    this.turn = this.list.length;
    const text = ENDS[finish];
    // Also if another run was stopped before it wrote something.
    if (text && this.list.at(-1)?.text !== text) this.add({ kind: "notice", text });
  }

  seals() {
    this.list.forEach((one, at) => {
      if (at >= this.turn && (one.kind === "text" || one.kind === "reasoning") && !one.sealed) this.change(at, { sealed: true });
    });
  }

  content(content) {
    if (content.type === "text") this.add({ kind: "text", ...long(content), sealed: true });
    else if (content.type === "reasoning") this.add({ kind: "reasoning", text: content.text, sealed: true });
    else this.add({ kind: "content", content });
  }

  result(identifier, result) {
    approved.delete(identifier);
    const at = this.last((one) => one.kind === "call" && one.identifier === identifier && !one.result);
    if (at >= 0) this.change(at, { result, phase: "done" });
  }

  /** A call has its answer, and waits for those to other questions, or to go on if that was the `last`. */
  answered(identifier, answer, last) {
    const at = this.last((one) => one.kind === "call" && one.identifier === identifier && one.phase === "open");
    if (at >= 0) this.change(at, { phase: answer === "deny" ? "declined" : "approved", next: last ? "last" : "others" });
  }

  /** What another process does with calls. */
  elsewhere(calls) {
    this.list.forEach(({ identifier, result }, at) => calls[identifier] && !result && this.change(at, { phase: calls[identifier] === "asked" ? "elsewhere" : "running" }));
  }

  /** All questions have their answers. */
  goOn() {
    this.list.forEach(({ phase }, at) => (phase === "approved" || phase === "declined") && this.change(at, { phase: "open", next: null }));
  }

  /** The turn under way, as a snapshot has it. */
  live(turn) {
    for (const item of turn) {
      if (item.type === "call") this.liveCall(item);
      else if (item.type === "text" || item.type === "reasoning")
        this.add({ kind: item.type, text: item.text, sealed: item.sealed });
      else this.add({ kind: "content", content: item });
    }
  }

  liveCall(item) {
    const fields = {
      ...(item.invocation ? callOf(item.invocation) : { identifier: item.identifier, name: item.name, raw: item.arguments }),
      index: item.index,
      progress: item.progress,
      phase: item.result ? "done" : item.began ? "running" : item.invocation ? "open" : "writing",
      ...(item.result ? { result: item.result } : {}),
    };
    const known = this.last((one) => one.kind === "call" && one.identifier === item.identifier && !one.result);
    if (known >= 0) this.change(known, { ...fields, ...kept(this.list[known]) });
    else this.add({ kind: "call", ...fields });
  }

  /** Adds an event of a run. */
  take(event) {
    switch (event.type) {
      case "TurnBegan":
        // A model that begins anew has left its unfinished answer.
        this.list = this.list.filter((one, at) => at < this.turn || one.sealed || one.kind === "notice" || settled(one));
        this.turn = this.list.length;
        break;
      case "TextDelta":
        this.grow("text", event.text);
        break;
      case "ReasoningDelta":
        this.grow("reasoning", event.text);
        break;
      case "ContentSealed":
        this.seal(event.content);
        break;
      case "InvocationBegan":
        this.add({ kind: "call", identifier: event.identifier, name: event.name, index: event.index, raw: "", phase: "writing" });
        break;
      case "ArgumentsDelta": {
        const at = this.last((one) => one.phase === "writing" && one.index === event.index, this.turn);
        if (at >= 0) this.change(at, { raw: this.list[at].raw + event.text });
        break;
      }
      case "InvocationSealed":
        this.call(event.invocation, { phase: "open" }, event.index);
        break;
      case "ExecutionBegan":
        this.call(event.invocation, { phase: "running", began: Date.now() });
        break;
      case "ExecutionProgress": {
        const at = this.last((one) => one.identifier === event.invocation_id && !one.result);
        if (at >= 0) this.change(at, { progress: event });
        break;
      }
      case "ResultReady":
        this.result(event.result.invocation_id, { ...event.result, discarded: event.discarded });
        break;
      case "TurnEnded":
        this.seals();
        break;
    }
  }

  grow(kind, text) {
    const at = this.list.length - 1;
    const last = this.list[at];
    if (last && last.kind === kind && !last.sealed && at >= this.turn) this.change(at, { text: last.text + text });
    else this.add({ kind, text, sealed: false });
  }

  seal(content) {
    const at = this.last((one) => one.kind === "text" && !one.sealed, this.turn);
    if (content.type === "text" && at >= 0) this.change(at, { ...long(content), sealed: true });
    else this.content(content);
  }

  call(invocation, fields, index) {
    const same = (one) =>
      one.kind === "call" && !one.result &&
      (one.identifier === invocation.identifier || (one.phase === "writing" && index !== undefined && one.index === index));
    const at = this.last(same);
    if (at >= 0) this.change(at, { ...callOf(invocation), ...fields, ...kept(this.list[at]) });
    else this.add({ kind: "call", ...callOf(invocation), ...fields });
  }
}

const long = ({ text, bytes, reference }) => ({ text, bytes, reference });

// A person may have edited them.
const kept = (one) => one.phase === "open" && { arguments: one.arguments };

const settled = (one) => one.kind === "call" && one.phase !== "writing";

const callOf = ({ identifier, name, arguments: values, raw, fault }) => ({ identifier, name, arguments: values || {}, raw, fault });
