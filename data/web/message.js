// One item of a log: what the user said, text, reasoning, an image, a notice.
import { ask, markdown } from "./api.js";
import { Call } from "./call.js";
import { bytes, Copy, html, Lines, Rendered, useEffect, useMemo, useRef, useState, visible, when } from "./ui.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** Whether a content is an image that is shown. */
export const picture = ({ type, mime_type: kind, url }) => type === "image" && !url && IMAGES.has(kind);
const drawn = new WeakMap();
/** A long content, which is fetched with the token. */
export const fetched = (reference) => ask(`chat/conversations/${location.hash.split("/")[2]}/contents/${reference}`);
/** The text of contents, the whole of long ones, too. */
export const textOf = (contents) => async () => {
  const texts = contents.filter((one) => one.type === "text");
  return (await Promise.all(texts.map(async ({ text, reference }) => (reference ? (await fetched(reference)).text() : text)))).join("");
};

/** The node of an item. The same item has the same node, so that it is not drawn again. */
export function item(one) {
  if (!drawn.has(one)) drawn.set(one, html`<${Item} key=${one.key} one=${one} />`);
  return drawn.get(one);
}

function Item({ one }) {
  switch (one.kind) {
    case "user":
      return html`<article class="said" data-step tabindex="-1" aria-label="You">
        <div class="bubble" dir="auto">${one.content.map((content) => html`<${Content} content=${content} />`)}</div>
        <div class="below">${one.place !== undefined && html`<${Rewrite} one=${one} />`}<${Copy} text=${textOf(one.content)} label="Copy this message" /><time datetime=${one.at}>${when(one.at)}</time></div>
      </article>`;
    case "text":
      return html`<div class="answer"><article class="text" data-step tabindex="-1" aria-label="Answer"><${Text} one=${one} /></article>
        ${one.sealed ? html`<${Copy} text=${textOf([{ ...one, type: "text" }])} label="Copy this answer" />` : null}</div>`;
    case "reasoning":
      return html`<${Reasoning} one=${one} />`;
    case "call":
      return html`<${Call} call=${one} />`;
    case "content":
      return html`<div class="text"><${Content} content=${one.content} /></div>`;
    case "aside":
      return html`<details class="reasoning"><summary>${visible(one.title)}</summary>
        ${(one.content || []).map((content) => html`<${Content} content=${content} />`)}</details>`;
    default:
      return html`<p class=${`notice ${one.tone || ""}`}>${visible(one.text)}</p>`;
  }
}

/** Writes a message anew, or sends it again: in a fork that ends before it. This conversation stays as it is. */
function Rewrite({ one }) {
  const [wrong, say] = useState("");
  const [busy, work] = useState(false);
  const go = async (again) => {
    work(true);
    try {
      await (await import("./rewrite.js")).rewrite(one, again);
    } catch (problem) {
      say(problem.message);
    }
    work(false);
  };
  return html`<span class="wrong" role="alert">${visible(wrong)}</span>
    <button type="button" class="copy quiet" aria-label="Send this message again in a fork" disabled=${busy} onClick=${() => go(true)}>Repeat</button>
    <button type="button" class="copy quiet" aria-label="Edit this message in a fork" disabled=${busy} onClick=${() => go()}>Edit</button>`;
}

function Text({ one }) {
  const [, draw] = useState(0);
  const text = one.sealed ? markdown(one.text, () => draw((count) => count + 1)) : null;
  return html`${text === null
    ? html`<div class="prose plain" dir="auto">${visible(one.text)}</div>`
    : html`<${Rendered} text=${text} />`}
  ${one.bytes ? html`<p class="dim">Only the beginning of ${bytes(one.bytes)} is shown.</p>` : null}`;
}

function Reasoning({ one }) {
  return html`<details class="reasoning">
    <summary>${one.sealed ? "Reasoning" : "Reasoning …"}</summary>
    <div class="prose plain" dir="auto">${visible(one.text)}</div>
  </details>`;
}

/** A content of a message or a result. Only images of four kinds are shown; everything else can be saved. */
export function Content({ content, plain = false }) {
  const { type, text, mime_type: kind, name, data, bytes: size, reference } = content;
  const [blob, set] = useState(null);
  const [whole, write] = useState(null);
  const [wrong, say] = useState("");
  // A long content is fetched with the token when a person asks for it.
  const load = async () => {
    try {
      const found = await (await fetched(reference)).blob();
      if (type === "text") write(await found.text());
      else set(found);
    } catch (problem) {
      say(problem.message);
    }
  };
  const shows = picture(content);
  const place = useRef(null);
  useEffect(() => {
    // A long image is fetched when it comes into view.
    if (!place.current) return;
    const watch = new IntersectionObserver(([entry]) => entry.isIntersecting && (watch.disconnect(), load()));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const more = reference && html`<button type="button" onClick=${load}>Load all of it</button><span class="wrong" role="alert">${wrong}</span>`;
  if (type === "text") {
    const shown = whole ?? text;
    return html`${plain ? html`<${Lines} text=${shown} />` : html`<p class="plain">${visible(shown)}</p>`}
      ${size && whole === null ? html`<p class="dim">Only the beginning of ${bytes(size)} is shown. ${more}</p>` : null}`;
  }
  if (content.url) return html`<p class="dim">A document at <code>${visible(content.url)}</code>, which is not loaded.</p>`;
  if (!data && !blob) return html`<p class="dim" ref=${shows ? place : null}>${visible(name || kind)}, ${bytes(size)}. ${more}</p>`;
  return html`<${Media} kind=${kind} name=${name} size=${size} data=${data} blob=${blob} shown=${shows} />`;
}

function Media({ kind, name, size, data, blob, shown }) {
  const url = useMemo(() => {
    const raw = blob || Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
    // What is not shown is saved as bytes, never opened.
    return URL.createObjectURL(new Blob([raw], { type: shown ? kind : "application/octet-stream" }));
  }, [data, blob]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return shown
    ? html`<img class="picture" src=${url} alt="An image without a description" />${name && html`<p class="dim">${visible(name)}</p>`}`
    : html`<a class="button" href=${url} download=${name || "content"}>Save ${visible(name || kind)}, ${bytes(size)}</a>`;
}
