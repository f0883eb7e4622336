// A client of AG-UI without a framework: a run, an approval, a tool of its own, and the conversation from the server.
// Run it with: node plain-client.mjs http://127.0.0.1:8080/agui MESSAGE
import { HttpAgent } from "@ag-ui/client";

const [url, message, threadId = crypto.randomUUID()] = process.argv.slice(2);
const headers = {}; // Whatever your sign-in needs, in a page its cookie.
const agent = new HttpAgent({ url: `${url}/run`, threadId, headers });

// A tool that runs here: declared with each run, and only for it.
const locate = { name: "locate", description: "Where the user is.", parameters: { type: "object", properties: {} } };
const implementations = { locate: () => "Cremona" };

/** Runs until the server waits for this client. Without a message, it reads on, or tries again after a failure. */
async function run(parameters = {}) {
  let failure = null;
  await agent.runAgent({ tools: [locate], ...parameters }, {
    onTextMessageContentEvent: ({ event }) => void process.stdout.write(event.delta),
    onTextMessageEndEvent: () => void process.stdout.write("\n"),
    onRunErrorEvent: ({ event }) => void (failure = event.message),
  });
  if (failure) throw new Error(failure);
}

/** The answer to a question. ``editedArgs`` and ``always`` are possible if its schema has them. */
function decide({ id, message, responseSchema, metadata }) {
  console.log(message, metadata.arguments);
  const editable = metadata.arguments?.text !== undefined && "editedArgs" in responseSchema.properties;
  const payload = editable
    ? { approved: true, editedArgs: { ...metadata.arguments, text: "edited" } }
    : { approved: true, always: "always" in responseSchema.properties };
  return { interruptId: id, status: "resolved", payload };
}

/** The calls of the last answer that have no result and are this client's. */
function owed() {
  const done = new Set(agent.messages.map(({ toolCallId }) => toolCallId));
  const calls = agent.messages.flatMap(({ toolCalls = [] }) => toolCalls);
  return calls.filter(({ id, function: { name } }) => !done.has(id) && name in implementations);
}

// The server has the conversation: a client that comes back begins with it, and with its open questions.
const found = await fetch(`${url}/messages?threadId=${threadId}`, { headers });
if (found.ok) agent.setMessages((await found.json()).messages);

agent.addMessage({ id: crypto.randomUUID(), role: "user", content: message });
await run();
for (;;) {
  if (agent.pendingInterrupts.length) await run({ resume: agent.pendingInterrupts.map(decide) });
  else if (owed().length) {
    for (const { id, function: { name } } of owed()) {
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content: implementations[name]() });
    }
    await run();
  } else break;
}
