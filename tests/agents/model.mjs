// A model that follows a script, on loopback, for agents that speak the APIs of Anthropic (messages), OpenAI (responses and
// chat completions) or Gemini. Each request is answered with the step that follows the tool results in it.
//   node model.mjs STEPS.json LOG TICKETS     prints the port; writes the tools that were offered and the results, a line of JSON each
// A step is {"tool": NAME, "arguments": {...}}. The tool is the offered one whose name ends so. After the last step comes a text.
// A call that is answered with a ticket is repeated with it, and the ticket is written to TICKETS.
import http from "node:http";
import fs from "node:fs";

const steps = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const [log, tickets] = process.argv.slice(3);

const note = (entry) => fs.appendFileSync(log, JSON.stringify(entry) + "\n");
// The ticket in a result, however often its quotes are escaped.
const ticket = (result) => /has not finished after[^]*?\\*"(ticket|palisade_ticket)\\*": \\*"([-0-9a-f]{36})/.exec(result ?? "");
const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// What a request says, whatever the API: the names of its tools, and the results of the calls so far.
function read(path, body) {
  if (path.includes("/v1/messages")) {
    const parts = body.messages.flatMap((message) => (Array.isArray(message.content) ? message.content : []));
    return {
      api: "messages",
      tools: (body.tools ?? []).map((tool) => tool.name),
      results: parts.filter((part) => part.type === "tool_result").map((part) => asText(part.content)),
    };
  }
  if (path.includes("/responses")) {
    const input = Array.isArray(body.input) ? body.input : [];
    // A server's tools may be in a namespace of its own.
    const names = (tool) => (tool.type === "namespace" ? tool.tools.map((inner) => `${tool.name}.${inner.name}`) : [tool.name ?? tool.type]);
    return {
      api: "responses",
      tools: (body.tools ?? []).flatMap(names),
      results: input.filter((item) => /_call_output$/.test(item.type ?? "")).map((item) => asText(item.output)),
    };
  }
  if (path.includes("/chat/completions")) {
    return {
      api: "chat",
      tools: (body.tools ?? []).map((tool) => tool.function.name),
      results: body.messages.filter((message) => message.role === "tool").map((message) => asText(message.content)),
    };
  }
  const parts = (body.contents ?? []).flatMap((content) => content.parts ?? []);
  return {
    api: "gemini",
    tools: (body.tools ?? []).flatMap((tool) => (tool.functionDeclarations ?? []).map((one) => one.name)),
    results: parts.filter((part) => part.functionResponse).map((part) => asText(part.functionResponse.response)),
  };
}

// The next step: a call, or a text at the end or where no tool is offered.
function next(request) {
  if (request.tools.length === 0) return { text: "ok" };
  const step = steps[request.results.filter((result) => !ticket(result)).length];
  if (!step) return { text: "done" };
  const [, argument, pending] = ticket(request.results.at(-1)) ?? [];
  if (pending) fs.appendFileSync(tickets, `${JSON.stringify(step.arguments)} ${pending}\n`);
  const name = request.tools.find((tool) => tool === step.tool) ?? request.tools.find((tool) => tool.endsWith(step.tool));
  if (!name) return { text: `there is no tool ${step.tool}` };
  return { name, id: `call_${request.results.length}`, arguments: { ...step.arguments, ...(pending && { [argument]: pending }) } };
}

function messages(step) {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const block = step.name ? { type: "tool_use", id: step.id, name: step.name, input: {} } : { type: "text", text: "" };
  const delta = step.name
    ? { type: "input_json_delta", partial_json: JSON.stringify(step.arguments) }
    : { type: "text_delta", text: step.text };
  return [
    { type: "message_start", message: { id: "m", type: "message", role: "assistant", model: "scripted", content: [], stop_reason: null, usage } },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: step.name ? "tool_use" : "end_turn", stop_sequence: null }, usage },
    { type: "message_stop" },
  ].map((event) => [event.type, event]);
}

function responses(step) {
  const [space, name] = step.name?.includes(".") ? step.name.split(".") : [undefined, step.name];
  const item = step.name
    ? { type: "function_call", id: "f", call_id: step.id, name, ...(space && { namespace: space }), arguments: JSON.stringify(step.arguments) }
    : { type: "message", id: "t", role: "assistant", content: [{ type: "output_text", text: step.text, annotations: [] }] };
  const usage = { input_tokens: 1, input_tokens_details: null, output_tokens: 1, output_tokens_details: null, total_tokens: 2 };
  return [
    { type: "response.created", response: { id: "r" } },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: { id: "r", output: [item], usage } },
  ].map((event) => [event.type, event]);
}

function chat(step) {
  const call = step.name && [{ index: 0, id: step.id, type: "function", function: { name: step.name, arguments: JSON.stringify(step.arguments) } }];
  const delta = call ? { role: "assistant", tool_calls: call } : { role: "assistant", content: step.text };
  const chunk = (delta, finish_reason) => ({ id: "c", object: "chat.completion.chunk", created: 1, model: "scripted", choices: [{ index: 0, delta, finish_reason }] });
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  return [chunk(delta, null), { ...chunk({}, call ? "tool_calls" : "stop"), usage }, "[DONE]"].map((event) => [null, event]);
}

function gemini(step) {
  const part = step.name ? { functionCall: { name: step.name, args: step.arguments } } : { text: step.text };
  return [[null, { candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }], usageMetadata: { totalTokenCount: 2 } }]];
}

const apis = { messages, responses, chat, gemini };

function answer(path, body, reply) {
  if (path.includes("count_tokens")) return reply.end(JSON.stringify({ input_tokens: 1, totalTokens: 1 }));
  if (!body) return reply.end(JSON.stringify({ data: [], models: [] }));
  const request = read(path, body);
  if (request.tools.length > 0) note(request);
  const events = apis[request.api](next(request));
  const isStream = body.stream === true || path.includes("streamGenerateContent");
  if (!isStream && request.api === "gemini") return reply.end(JSON.stringify(events[0][1]));
  if (!isStream && request.api === "messages") {
    const content = [{ type: "text", text: "ok" }];
    return reply.end(JSON.stringify({ id: "m", type: "message", role: "assistant", model: "scripted", content, stop_reason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 } }));
  }
  reply.setHeader("content-type", "text/event-stream");
  for (const [name, event] of events) {
    reply.write(`${name ? `event: ${name}\n` : ""}data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
  }
  reply.end();
}

const server = http.createServer((request, reply) => {
  let text = "";
  request.on("data", (data) => (text += data));
  request.on("end", () => {
    reply.setHeader("content-type", "application/json");
    let body = null;
    try {
      body = text ? JSON.parse(text) : null;
    } catch {
      reply.statusCode = 400;
    }
    answer(request.url, body, reply);
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
