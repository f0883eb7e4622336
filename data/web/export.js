// A conversation as a file of Markdown. Loaded when one is saved.
import { get } from "./api.js";
import { textOf } from "./message.js";
import { pretty } from "./pretty.js";
import { titled, visible } from "./ui.js";

/** Saves the whole messages of a conversation, with the calls and their results. */
export async function save({ path }, title) {
  const parts = [`# ${titled(title)}`];
  let speaker = "";
  for (const one of (await get(path)).messages) {
    const name = { user: "You", assistant: "Model", invocation: "Model", result: "Model" }[one.type] || one.title || one.type;
    if (name !== speaker || one.type === "user") parts.push(`## ${visible(name)}`);
    speaker = name;
    if (one.type === "invocation") parts.push(`**Call** of \`${visible(one.name)}\``, fenced(pretty(JSON.stringify(one.arguments || {})), "json"));
    if (one.error) parts.push(`**Error**: ${visible(one.error.message)}`);
    const text = await textOf(one.content || [])();
    if (text) parts.push(one.type === "result" ? fenced(text) : text);
    for (const { type, name, mime_type: kind } of one.content || [])
      if (type !== "text" && type !== "reasoning") parts.push(`*Attached: ${visible(name || type)}, ${kind}*`);
  }
  const url = URL.createObjectURL(new Blob([parts.join("\n\n"), "\n"], { type: "text/markdown" }));
  Object.assign(document.createElement("a"), { href: url, download: `${titled(title).slice(0, 80)}.md` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A block that no text can end before its end. */
function fenced(text, language = "") {
  const fence = "`".repeat(Math.max(3, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length + 1)));
  return `${fence}${language}\n${text}\n${fence}`;
}
