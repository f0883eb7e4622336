// A chat with useChat of the AI SDK, version 6 or 7.
import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses as answered,
  lastAssistantMessageIsCompleteWithToolCalls as complete,
} from "ai";
import { useEffect } from "react";
import { createRoot } from "react-dom/client";

const id = (localStorage.thread ??= crypto.randomUUID());
// The protocol has no place for these: they go beside the messages, by the identifiers of the calls.
const extra = { edits: {}, always: [] };
const transport = new DefaultChatTransport({ api: "/api/chat", body: () => extra });

function Call({ part: { toolCallId, toolName, state, input, output, errorText, approval }, respond }) {
  const decide = (approved) => respond({ id: approval.id, approved });
  const edit = () => {
    const text = prompt("Arguments", JSON.stringify(input));
    if (text === null) return;
    extra.edits[toolCallId] = JSON.parse(text);
    decide(true);
  };
  const always = () => {
    extra.always.push(toolCallId);
    decide(true);
  };
  // What the tool and the rules allow: "edit" and "always" are not offered for every call.
  const choices = approval?.descriptor?.choices ?? [];
  return (
    <p>
      {toolName} {JSON.stringify(input)} {errorText ?? (output === undefined ? "" : `→ ${JSON.stringify(output)}`)}
      {state === "approval-requested" && (
        <>
          <button onClick={() => decide(true)}>Approve</button> <button onClick={() => decide(false)}>Deny</button>{" "}
          {choices.includes("edit") && <button onClick={edit}>Edit</button>}{" "}
          {choices.includes("always") && <button onClick={always}>Always</button>}
        </>
      )}
    </p>
  );
}

function Part({ part, respond }) {
  if (part.type === "text") return <p>{part.text}</p>;
  // A large file has the address of its content, beneath that of the interface.
  if (part.type === "file") return <img src={part.url} alt={part.filename ?? ""} />;
  return part.type === "dynamic-tool" ? <Call part={part} respond={respond} /> : null;
}

function Chat({ earlier }) {
  const chat = useChat({
    id,
    messages: earlier,
    transport,
    sendAutomaticallyWhen: (state) => answered(state) || complete(state),
    // A tool that runs here: the server declares it with hosted = "caller".
    onToolCall({ toolCall: { toolName, toolCallId } }) {
      if (toolName === "locate") chat.addToolOutput({ tool: toolName, toolCallId, output: "Cremona" });
    },
  });
  const readOn = async () => {
    await chat.resumeStream();
    // If the run has ended since the messages were read, nothing is resumed: they have its answer now.
    if (earlier.at(-1)?.role === "user") chat.setMessages(await load());
  };
  useEffect(() => void readOn(), []);
  const submit = (event) => {
    event.preventDefault();
    chat.sendMessage({ text: new FormData(event.target).get("text") });
    event.target.reset();
  };
  return (
    <>
      {chat.messages.map(({ id, parts }) =>
        parts.map((part, place) => <Part key={`${id}-${place}`} part={part} respond={chat.addToolApprovalResponse} />),
      )}
      <p role="alert">{chat.error?.message}</p>
      <form onSubmit={submit}>
        <input name="text" aria-label="Message" />
      </form>
    </>
  );
}

// The server keeps the conversation: the page begins with what it has.
async function load() {
  const answer = await fetch(`/api/chat/${id}/messages`);
  return answer.ok ? (await answer.json()).messages : [];
}

createRoot(document.getElementById("root")).render(<Chat earlier={await load()} />);
