// The question of a tool for values: a form of its schema, with its defaults.
import { useDraft } from "./answers.js";
import { parse } from "./api.js";
import { draft, useReady } from "./question.js";
import { html, visible } from "./ui.js";

/** Options of a question that are buttons, at most. */
const MOST = 8;

export function InputForm({ question, give, busy }) {
  const properties = question.schema?.properties || {};
  const [text, set] = useDraft(draft(question, "Values"), JSON.stringify(question.defaults || {}));
  const values = parse(text);
  const ready = useReady();
  const change = (name, value) => set((before) => JSON.stringify({ ...parse(before), [name]: value }));
  const submit = (event) => {
    event.preventDefault();
    const filled = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined);
    give({ answer: "edit" }, JSON.stringify(Object.fromEntries(filled)));
  };
  // One choice is one press.
  const [[name, only] = []] = Object.entries(properties);
  const options = Object.keys(properties).length === 1 && only.enum?.length <= MOST && question.schema.required?.includes(name);
  const decline = html`<button type="button" disabled=${busy} onClick=${() => give({ answer: "deny" })}>Decline</button>`;
  return html`<p class="dim">These words come from the tool or its server, and are not verified.</p>
    <blockquote class="plain" dir="auto">${question.text}</blockquote>
    ${options ? html`<div class="answers">${only.enum.map((one) => html`<button type="button" class="option" dir="auto" disabled=${busy || !ready}
        onClick=${() => give({ answer: "edit" }, JSON.stringify({ [name]: one }))}>${visible(one)}</button>`)}${decline}</div>` : html`<form class="edit" onSubmit=${submit}>
      ${Object.entries(properties).map(([name, schema]) => html`<${Field} key=${name} name=${name} schema=${schema}
        needed=${question.schema.required?.includes(name)} value=${values[name]} change=${change} />`)}
      <div class="answers">
        <button class="primary" disabled=${busy}>Send</button>
        ${decline}
      </div>
    </form>`}`;
}

function Field({ name, schema, needed, value, change }) {
  const label = visible(schema.title || name);
  const hint = schema.description ? html`<span class="dim">${visible(schema.description)}</span>` : null;
  if (schema.type === "boolean")
    return html`<label class="check"><input type="checkbox" checked=${Boolean(value)}
      onChange=${(event) => change(name, event.currentTarget.checked)} /> ${label} ${hint}</label>`;
  if (schema.enum)
    return html`<label>${label} ${hint}<select value=${value ?? ""} required=${needed} onChange=${(event) => change(name, event.currentTarget.value)}>
      ${needed ? null : html`<option value=""></option>`}
      ${schema.enum.map((one) => html`<option value=${one}>${visible(one)}</option>`)}</select></label>`;
  const number = schema.type === "number" || schema.type === "integer";
  return html`<label>${label} ${hint}<input type=${number ? "number" : "text"} step=${schema.type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum}
    required=${needed} value=${value ?? ""}
    onInput=${({ currentTarget }) => change(name, number && currentTarget.value !== "" ? Number(currentTarget.value) : currentTarget.value)} /></label>`;
}
