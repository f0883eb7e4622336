// A chat with assistant-ui over AG-UI.
import { HttpAgent } from "@ag-ui/client";
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  ExportedMessageRepository,
  MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import { fromAgUiMessages, useAgUiRuntime } from "@assistant-ui/react-ag-ui";
import { createRoot } from "react-dom/client";

const threadId = (localStorage.thread ??= crypto.randomUUID());
const agent = new HttpAgent({ url: "/agui/run", threadId });
// The server keeps the conversation. The page loads it, with the open questions, and reads on if a run is under way.
const history = {
  async load() {
    const answer = await fetch(`/agui/messages?threadId=${threadId}`);
    if (!answer.ok) return { messages: [] };
    const { messages, interrupts, state } = await answer.json();
    const last = messages.findLast(({ role }) => role === "assistant");
    if (interrupts.length) last.metadata = { custom: { agui: { interrupts } } };
    const loaded = ExportedMessageRepository.fromArray(fromAgUiMessages(messages));
    return { ...loaded, unstable_resume: state === "running" };
  },
  async append() {},
};

function Call({ toolName, argsText, result, approval, respondToApproval }) {
  return (
    <p>
      {toolName} {argsText} {result && `→ ${result}`}
      {approval && approval.approved === undefined && (
        <>
          <button onClick={() => respondToApproval({ approved: true })}>Approve</button>{" "}
          <button onClick={() => respondToApproval({ approved: false })}>Deny</button>
        </>
      )}
    </p>
  );
}

function Message() {
  return (
    <MessagePrimitive.Root>
      <MessagePrimitive.Parts components={{ tools: { Fallback: Call } }} />
      <MessagePrimitive.Error />
    </MessagePrimitive.Root>
  );
}

function Chat() {
  const runtime = useAgUiRuntime({ agent, adapters: { history } });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Viewport>
          <ThreadPrimitive.Messages components={{ Message }} />
        </ThreadPrimitive.Viewport>
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
