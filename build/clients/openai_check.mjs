// Checks the server with OpenAI's Node package.

import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.GODWIT_URL + "/v1", apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Name three animals that live in the sea." }];
const schema = { type: "object", properties: { city: { type: "string", maxLength: 20 } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "weather", parameters: schema } }];
const start = Date.now();

const whole = await client.chat.completions.create({ model: "any", messages, max_tokens: 16, temperature: 0 });
assert.equal(whole.choices[0].finish_reason, "length");
let text = "";
let usage;
const stream = await client.chat.completions.create({
  model: "any", messages, max_tokens: 16, temperature: 0, stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(usage.completion_tokens, 16);

const runner = client.chat.completions.stream({ model: "any", messages, max_tokens: 8, temperature: 0 });
assert.equal((await runner.finalChatCompletion()).choices[0].finish_reason, "length");

const call = await client.chat.completions.create({
  model: "any", messages: [{ role: "user", content: "Is it raining in Oslo?" }], tools, tool_choice: "required",
  parallel_tool_calls: false,
});
assert.equal(call.choices[0].finish_reason, "tool_calls");
assert.ok("city" in JSON.parse(call.choices[0].message.tool_calls[0].function.arguments));

const form = await client.chat.completions.create({
  model: "any", messages, response_format: { type: "json_schema", json_schema: { name: "place", schema } },
});
assert.ok("city" in JSON.parse(form.choices[0].message.content));

const response = await client.responses.create({ model: "any", input: messages[0].content, max_output_tokens: 16, temperature: 0 });
assert.equal(response.output_text, text);

const rows = await client.embeddings.create({ model: "any", input: ["The sea.", "A lake."] });
assert.equal(rows.data.length, 2);
assert.ok(rows.data[0].embedding.length > 0);

await assert.rejects(
  client.chat.completions.create({ model: "any", messages: [{ role: "user", content: "hello ".repeat(5000) }] }),
  (e) => e.status === 400 && e.code === "context_length_exceeded",
);
await assert.rejects(
  client.chat.completions.create({ model: "any", messages, top_p: 5 }),
  (e) => e.status === 400 && e.param === "top_p",
);

const gone = await client.chat.completions.create({ model: "any", messages, stream: true });
for await (const _ of gone) break; // hangs up

console.log(`openai for Node: 9 checks in ${((Date.now() - start) / 1000).toFixed(1)} s`);
