"""AG-UI 1.0 as an interface of a chat, for front ends such as assistant-ui and CopilotKit, also with client 0.0.59."""
