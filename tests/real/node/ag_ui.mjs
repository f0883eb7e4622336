// Plays whole rounds with the real HttpAgent of @ag-ui/client, and prints what it has: one JSON object.
// Arguments: the folder of its modules, the address of the interface.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url] = process.argv.slice(2);
const found = createRequire(`${modules}/`).resolve("@ag-ui/client");
const { HttpAgent } = await import(pathToFileURL(found).href);

const seen = {};
const headers = { "x-user": "ada" };

async function play(name, script) {
  const agent = new HttpAgent({ url: `${url}/run`, threadId: `thread-${name}`, headers });
  const rounds = [];
  let count = 0;
  const run = async (text, resume) => {
    const round = { kinds: [], error: null, pending: null };
    if (text) agent.addMessage({ id: `mine-${name}-${(count += 1)}`, role: "user", content: text });
    try {
      await agent.runAgent(resume ? { resume } : {}, {
        onEvent: ({ event }) => void round.kinds.push(event.type),
        onRunFinishedEvent: ({ pendingToolCallIds }) => void (round.pending = pendingToolCallIds ?? null),
        onRunErrorEvent: ({ event }) => void (round.error = event.message),
      });
    } catch (error) {
      round.thrown = String(error.message ?? error);
    }
    round.interrupts = agent.pendingInterrupts;
    rounds.push(round);
    return round;
  };
  const answer = (round, payload) =>
    run("", round.interrupts.map(({ id }) => (payload ? { interruptId: id, status: "resolved", payload } : { interruptId: id, status: "cancelled" })));
  await script({ agent, run, answer, stop: () => post("/stop", { threadId: agent.threadId }) });
  seen[name] = { rounds, messages: agent.messages };
}

async function post(path, body) {
  await fetch(url + path, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) });
}

await play("text", async ({ run }) => {
  await run("text");
  await run("text");
});
await play("calls", async ({ run }) => void (await run("calls")));
for (const [name, payload] of [
  ["approve", { approved: true }],
  ["deny", { approved: false, reason: "Not today." }],
  ["edit", { approved: true, editedArgs: { text: "edited" } }],
  ["cancel", null],
]) {
  await play(name, async ({ run, answer }) => {
    const round = await run("write");
    await run("too early");
    const { interrupts } = await answer(round, payload);
    // An edited call is shown, and asked about like any other.
    if (interrupts.length) await answer({ interrupts }, { approved: true });
    await run("text");
  });
}
await play("client", async ({ agent, run }) => {
  await run("locate");
  agent.addMessage({ id: "result", role: "tool", toolCallId: "locate-1", content: "Cremona" });
  await run("");
});
await play("failure", async ({ run }) => {
  await run("fail");
  await run("text");
});
await play("stop", async ({ agent, run, stop }) => {
  const running = run("block");
  const timer = setInterval(stop, 50);
  await running;
  clearInterval(timer);
});
console.log(JSON.stringify(seen));
