// Whole rounds of the npm package ai with a server: a text, a call, approvals, a call of the client, a resumed stream.
// Arguments: the folder of the package, its version, the URL of the server. Prints the messages as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [modules, version, url] = process.argv.slice(2);
const resolve = createRequire(path.join(modules, "x.js")).resolve;
const packageFile = path.join(modules, "ai", "package.json");
const main = createRequire(packageFile)("./package.json");
const entry = main.exports["."].import?.default ?? main.exports["."].import ?? main.exports["."].default ?? main.module;
const ai = await import(pathToFileURL(path.join(modules, "ai", typeof entry === "string" ? entry : "dist/index.mjs")));

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => {
    this.messages = [...this.messages.slice(0, index), this.snapshot(message), ...this.messages.slice(index + 1)];
  };
  snapshot = (value) => structuredClone(value);
}
class Chat extends ai.AbstractChat {
  constructor(options) { super({ state: new State(), ...options }); }
}

let requests = 0;
const counted = (...given) => { requests += 1; return fetch(...given); };
const transport = new ai.DefaultChatTransport({ api: `${url}/api/chat`, headers: { "x-user": "ada" }, fetch: counted });
const complete = ai.lastAssistantMessageIsCompleteWithToolCalls;
const answered = ai.lastAssistantMessageIsCompleteWithApprovalResponses;
const seen = [];
const chat = new Chat({
  id: "page",
  transport,
  onData: (part) => seen.push(part),
  sendAutomaticallyWhen: (state) => complete(state) || (answered !== undefined && answered(state)),
});
const fail = (what) => { throw new Error(`${what}: ${chat.error} ${JSON.stringify(chat.messages)}`); };
const settled = async (what, reached) => {
  for (let turn = 0; turn < 1000; turn += 1) {
    if (chat.status === "error") fail(what);
    if (chat.status === "ready" && reached()) return;
    await new Promise((done) => setTimeout(done, 10));
  }
  fail(what);
};
const last = () => chat.messages.at(-1);
const call = (identifier) => last().parts.find((part) => part.toolCallId === identifier);
const says = (text) => () => last().parts.at(-1)?.text === text && last().parts.at(-1)?.state === "done";

await chat.sendMessage({ text: "Look." });
await settled("a call that runs at the server", says("Seen."));

for (const approved of [true, false]) {
  await chat.sendMessage({ text: "Write." });
  const name = approved ? "approve" : "deny";
  const part = call(name);
  if (version === "5") {
    const question = last().parts.find((one) => one.type === "data-question").data;
    await chat.sendMessage(undefined, { body: { approvals: [{ id: question.approvalId, approved }] } });
  } else {
    if (part.state !== "approval-requested") fail("an approval");
    await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: approved ? undefined : "Not today." });
  }
  await settled(name, says("Written."));
}

await chat.sendMessage({ text: "Where?" });
if (call("where").state !== "input-available") fail("a call of the client");
const add = chat.addToolOutput ?? chat.addToolResult;
await add({ tool: "where", toolCallId: "where", output: { at: "home" } });
await settled("a result of the client", says("Home."));

// A page that is loaded in the middle of a run, and one that leaves it: the run goes on.
void chat.sendMessage({ text: "Wait." });
await new Promise((done) => setTimeout(done, 0));
while (call("wait")?.state !== "input-available") await new Promise((done) => setTimeout(done, 10));
await chat.stop();
const again = new Chat({ id: "page", transport });
const resuming = again.resumeStream();
while (again.messages.length === 0) await new Promise((done) => setTimeout(done, 10));
await fetch(`${url}/go`, { method: "POST" });
await resuming;
if (again.error !== undefined) throw again.error;
// Nothing is left to resume.
const idle = new Chat({ id: "page", transport });
await idle.resumeStream();
if (idle.messages.length !== 0 || idle.status !== "ready") fail("an idle conversation");

const broken = new Chat({ id: "broken", transport });
await broken.sendMessage({ text: "Fail." });

console.log(JSON.stringify({
  messages: chat.messages, resumed: again.messages, seen, requests, error: broken.error?.message, status: broken.status,
}));
