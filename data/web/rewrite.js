// A message of the user that is written anew, or sent again, in a fork. Loaded when one is.
import { get, keep, post } from "./api.js";
import { begin, staying } from "./chats.js";
import { carried, encode } from "./composer.js";
import { fetched, textOf } from "./message.js";

export async function rewrite({ content, place }, again) {
  const stays = staying();
  const identifier = location.hash.split("/")[2];
  const text = await textOf(content)();
  const files = await Promise.all(content.filter((one) => one.type !== "text" && !one.url).map(file));
  const name = place ? (await post(`journal/${identifier}/fork`, { at: place })).identifier : again ? await begin() : "";
  if (again) await post(`chat/conversations/${name}/messages`, { text, attachments: files, ...(place ? {} : await chosen(identifier)) });
  else {
    keep(name, text);
    carried.set(name, files);
  }
  if (stays()) location.hash = name ? `#/chat/${name}` : "#/";
}

/** The model and the agent of a conversation, which a fork has by itself; the default model is not named. */
async function chosen(identifier) {
  const [{ model, agent }, { models = [] }] = await Promise.all([get(`chat/conversations/${identifier}?limit=1`), get("models")]);
  const named = model && !models.some((one) => one.name === model && one.default);
  return { ...(named ? { model } : {}), ...(agent ? { agent } : {}) };
}

async function file({ name, mime_type: kind, data, reference }) {
  const found = { name: name || kind, mime_type: kind };
  return data ? { ...found, data } : { ...(await encode(await (await fetched(reference)).blob())), ...found };
}
