// The page: a user signs in, talks, and decides about calls that need approval.
import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  generateId,
  lastAssistantMessageIsCompleteWithApprovalResponses as answered,
} from "ai";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

// The address names the conversation: it is there again after a reload.
const id = location.hash.slice(1) || generateId();
location.hash = id;
const messagesUrl = `api/chat/${id}/messages`;

const post = (url, body) =>
  fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

function SignIn({ onUser }) {
  const [problem, setProblem] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const response = await post("sign-in", Object.fromEntries(new FormData(event.target)));
    const answer = await response.json();
    response.ok ? onUser(answer.user) : setProblem(answer.detail);
  };
  return (
    <form onSubmit={submit}>
      <label>User <input name="user" autoComplete="username" /></label>
      <label>Password <input name="password" type="password" autoComplete="current-password" /></label>
      <button>Sign in</button>
      <p role="alert">{problem}</p>
    </form>
  );
}

// The server denies a question that the user leaves open by writing something else: only the last message has buttons.
function Call({ part, decide, last }) {
  const open = part.state === "approval-requested";
  const asked = open && last;
  return (
    <details open={asked}>
      <summary>{part.toolName}: {open && !last ? "denied" : part.state}</summary>
      <pre>{JSON.stringify(part.input, null, 2)}</pre>
      <pre>{part.errorText ?? JSON.stringify(part.output, null, 2)}</pre>
      {asked && <button onClick={() => decide({ id: part.approval.id, approved: true })}>Approve</button>}
      {asked && <button onClick={() => decide({ id: part.approval.id, approved: false })}>Deny</button>}
    </details>
  );
}

function Part({ part, ...rest }) {
  if (part.type === "text") return <p>{part.text}</p>;
  return part.type === "dynamic-tool" ? <Call part={part} {...rest} /> : null;
}

// A refusal is JSON, with a message for people.
function readable(error) {
  try {
    return JSON.parse(error.message).error.message;
  } catch {
    return error.message;
  }
}

function Chat({ messages: earlier }) {
  const [stopped, setStopped] = useState(false);
  // Another tab may have answered first: after a refusal, the page shows what the server has.
  const reload = async () => {
    const response = await fetch(messagesUrl);
    if (response.ok) setMessages((await response.json()).messages);
  };
  const { messages, status, error, sendMessage, setMessages, stop, addToolApprovalResponse } = useChat({
    id,
    messages: earlier,
    resume: true,
    onError: reload,
    sendAutomaticallyWhen: answered,
    transport: new DefaultChatTransport({ api: "api/chat" }),
  });
  const busy = status === "submitted" || status === "streaming";
  const submit = (event) => {
    event.preventDefault();
    setStopped(false);
    sendMessage({ text: new FormData(event.target).get("text") });
    event.target.reset();
  };
  // Leaving the stream does not stop the run: stopping it is a request.
  const end = () => post(`api/chat/${id}/stop`, {}).then(stop).then(() => setStopped(true));
  return (
    <>
      {messages.map((message, number) => (
        <section key={message.id} aria-label={message.role}>
          {message.parts.map((part, place) => (
            <Part key={place} part={part} decide={addToolApprovalResponse} last={number === messages.length - 1} />
          ))}
        </section>
      ))}
      <p role="status">{stopped && "Stopped"}</p>
      <p role="alert">{error && readable(error)}</p>
      <form onSubmit={submit}>
        <input name="text" aria-label="Message" autoFocus />
        {busy ? <button type="button" onClick={end}>Stop</button> : <button>Send</button>}
      </form>
    </>
  );
}

function Page() {
  const [earlier, setEarlier] = useState();
  const load = async () => {
    const response = await fetch(messagesUrl);
    // A conversation begins with its first message: until then the server does not know it.
    setEarlier(response.ok ? (await response.json()).messages : response.status === 404 ? [] : null);
  };
  useEffect(() => void load(), []);
  if (earlier === undefined) return <p>Loading</p>;
  return earlier === null ? <SignIn onUser={load} /> : <Chat messages={earlier} />;
}

createRoot(document.getElementById("page")).render(<Page />);
