// The page: a user signs in, talks, and decides about calls that need approval.
import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  generateId,
  lastAssistantMessageIsCompleteWithApprovalResponses as answered,
} from "ai";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

// From the first message on, the address names the conversation: it is there again after a reload.
const begun = () => location.hash !== "";
const id = location.hash.slice(1) || generateId();
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

function Chat({ messages: earlier, onSignedOut }) {
  const [stopped, setStopped] = useState(false);
  // Another tab may have answered first: after a refusal, the page shows what the server has.
  const reload = async () => {
    const response = await fetch(messagesUrl);
    if (response.ok) setMessages((await response.json()).messages);
    if (response.status === 401) onSignedOut();
  };
  const { messages, status, error, sendMessage, setMessages, stop, resumeStream, addToolApprovalResponse } = useChat({
    id,
    messages: earlier,
    onError: reload,
    sendAutomaticallyWhen: answered,
    transport: new DefaultChatTransport({ api: "api/chat" }),
  });
  const readOn = async () => {
    await resumeStream();
    // If the run has ended since the messages were read, nothing is resumed: they have its answer now.
    if (earlier.at(-1).role === "user") await reload();
  };
  useEffect(() => void (earlier.length > 0 && readOn()), []);
  const busy = status === "submitted" || status === "streaming";
  const submit = (event) => {
    event.preventDefault();
    setStopped(false);
    location.hash = id;
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

// A page cannot read the cookie of its session: it notes that there is one. Before a sign-in, it asks the server nothing.
function Page() {
  const [user, setUser] = useState(localStorage.getItem("user"));
  const [earlier, setEarlier] = useState();
  const note = (name) => {
    name ? localStorage.setItem("user", name) : localStorage.removeItem("user");
    setEarlier(undefined);
    setUser(name);
  };
  const load = async () => {
    const response = begun() ? await fetch(messagesUrl) : {};
    if (response.status === 401) note(null);
    else setEarlier(response.ok ? (await response.json()).messages : []);
  };
  useEffect(() => void (user && load()), [user]);
  if (!user) return <SignIn onUser={note} />;
  return earlier ? <Chat messages={earlier} onSignedOut={() => note(null)} /> : <p>Loading</p>;
}

createRoot(document.getElementById("page")).render(<Page />);
