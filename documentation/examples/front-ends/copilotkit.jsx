// A chat with CopilotKit over AG-UI. It needs no CopilotKit runtime: the agent asks the server of this page.
import { HttpAgent } from "@ag-ui/client";
import { CopilotChat, CopilotKitProvider, useDefaultRenderTool, useInterrupt } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { createRoot } from "react-dom/client";

class Agent extends HttpAgent {
  // CopilotKit connects when it shows a thread: to run without a message loads the conversation, and reads on.
  connect(input) {
    return this.run({ ...input, messages: [] });
  }
}

const threadId = (localStorage.thread ??= crypto.randomUUID());
const agents = { default: new Agent({ url: "/agui/run", threadId }) };

function Chat() {
  useDefaultRenderTool();
  useInterrupt({
    render: ({ interrupts, resolve }) => (
      <>
        {interrupts.map(({ id, message }) => (
          <p key={id}>
            {message}{" "}
            <button onClick={() => resolve({ approved: true }, id)}>Approve</button>{" "}
            <button onClick={() => resolve({ approved: false }, id)}>Deny</button>
          </p>
        ))}
      </>
    ),
  });
  return <CopilotChat threadId={threadId} />;
}

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider selfManagedAgents={agents}>
    <Chat />
  </CopilotKitProvider>,
);
