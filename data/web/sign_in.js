// What a tab shows that has no token: how to get a link, and a field for a code or a key.
import { signIn } from "./api.js";
import { html, useState } from "./ui.js";

export function SignIn({ reason }) {
  const [key, set] = useState("");
  return html`<main class="splash"><div class="card">
    <h1>ripieno</h1>
    ${reason && html`<p>${reason}</p>`}
    <p>This page needs a new link. Run:</p>
    <pre class="output">ripieno serve web</pre>
    <p>If it is running already, open its link here, also a used one: its terminal then prints a new one.</p>
    <form onSubmit=${(event) => (event.preventDefault(), signIn(key.trim()))}>
      <label>Or a code or key, if you have one
        <input type="password" autocomplete="off" required value=${key} onInput=${(event) => set(event.currentTarget.value)} /></label>
      <button>Sign in</button>
    </form></div></main>`;
}
