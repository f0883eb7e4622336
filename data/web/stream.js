// Reads server-sent events with `fetch`, which, unlike EventSource, sends the token.
import { ask, parse } from "./api.js";

// The server sends a comment after 15 seconds of silence: after three of them, the connection is dead.
const SILENCE = 45_000;

/** The events of a conversation after a position, as `[position, event]` in batches. Errors: `Problem`. */
export async function* events(identifier, position, signal) {
  const dead = new AbortController();
  const stop = () => dead.abort();
  signal.addEventListener("abort", stop);
  let timer = setTimeout(stop, SILENCE);
  try {
    const answer = await ask(`chat/conversations/${encodeURIComponent(identifier)}/events`, {
      headers: { "last-event-id": position },
      signal: dead.signal,
    });
    yield [];
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE);
      const frames = (rest + value).split("\n\n");
      rest = frames.pop();
      yield frames.map(read).filter(Boolean);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    dead.abort();
  }
}

function read(frame) {
  let position = "";
  let data = "";
  for (const line of frame.split("\n")) {
    if (line.startsWith("id: ")) position = line.slice(4);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return data && [position, parse(data)];
}
