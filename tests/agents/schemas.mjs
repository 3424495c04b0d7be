// Holds the schemas of `palisade tools`, and those that `palisade mcp` makes of a stranger's, to other people's validators: AJV in
// strict mode and the MCP SDK's own types; the former also to the transformations of OpenAI's and Anthropic's SDKs.
//   node schemas.mjs PALISADE SERVER DIRECTORY     the program, the stranger's (strange_server.py), and an empty directory; the
//                                                  packages are those of package.json
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import assert from "node:assert/strict";
import Ajv from "ajv";
import Ajv2020 from "ajv/dist/2020.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ListToolsResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { toStrictJsonSchema } from "openai/lib/transform";
import { transformJSONSchema } from "@anthropic-ai/sdk/lib/transform-json-schema";

const [palisade, server, directory] = process.argv.slice(2);
const tools = (format) => JSON.parse(execFileSync(palisade, ["tools", "--format", format], { encoding: "utf8" }));
const openai = tools("openai").map((tool) => tool.function);
const strict = tools("openai-strict").map((tool) => tool.function);
const anthropic = tools("anthropic");
const mcp = tools("mcp");
assert(mcp.length > 20 && [openai, strict, anthropic].every((list) => list.length === mcp.length));

const schemas = [
  ...openai.map((tool) => [`openai ${tool.name}`, tool.parameters]),
  ...strict.map((tool) => [`openai-strict ${tool.name}`, tool.parameters]),
  ...anthropic.map((tool) => [`anthropic ${tool.name}`, tool.input_schema]),
  ...mcp.map((tool) => [`mcp ${tool.name}`, tool.inputSchema]),
];
// The tools of a server that writes its schemas as it likes.
const [file, workspace] = [`${directory}/mcp.toml`, `${directory}/work`];
const script = JSON.stringify(fs.readFileSync(server, "utf8"));
fs.mkdirSync(workspace);
fs.writeFileSync(file, `[mcp.servers.strange]\ncommand = "/usr/bin/python3"\nargs = ["-c", ${script}]\n`);
const client = new Client({ name: "schemas", version: "1" });
const args = ["mcp", "--workspace", workspace, "--servers", file];
await client.connect(new StdioClientTransport({ command: palisade, args, env: process.env }));
let strange = [];
// A list does not wait for a server that starts slowly.
for (let turn = 0; turn < 30 && strange.length === 0; turn++) {
  strange = (await client.listTools()).tools.filter((tool) => tool.name.startsWith("mcp_strange_"));
}
await client.close();
assert.equal(strange.length, 18, "every tool is offered");
schemas.push(...strange.map((tool) => [tool.name, tool.inputSchema]));
const visible = /^[^\u0000-\u001f\u007f-\u009f\u200b\u202a-\u202e\u{e0000}-\u{e0fff}]*$/u;
for (const { name, inputSchema: schema } of strange) {
  const text = JSON.stringify(schema);
  assert(text.length < 200_000 && visible.test(text), name);
  assert.equal(schema.type, "object", name);
  // What Anthropic's and OpenAI's APIs refuse at the top, and names that they refuse.
  for (const key of ["oneOf", "anyOf", "allOf", "enum", "not", "$ref"]) assert(!(key in schema), `${name}: ${key}`);
  for (const key of Object.keys(schema.properties)) assert.match(key, /^[a-zA-Z0-9_.-]{1,64}$/, name);
}

// A mistake in a schema is an error, and so is anything that AJV would only warn of.
const logger = { log() {}, warn: (text) => assert.fail(text), error: (text) => assert.fail(text) };
for (const validator of [new Ajv({ strict: true, logger }), new Ajv2020({ strict: true, logger })]) {
  for (const [name, schema] of schemas) {
    assert.doesNotThrow(() => validator.compile(schema), name);
  }
}
assert.throws(() => new Ajv({ strict: true }).compile({ type: "object", nonsense: 1 }), "control");

ListToolsResultSchema.parse({ tools: [...mcp, ...strange] });
assert.throws(() => ListToolsResultSchema.parse({ tools: [{ name: "x" }] }), "control");

for (const tool of strict) {
  assert.equal(tool.strict, true, tool.name);
  // What the SDK would make strict is so already.
  assert.deepEqual(toStrictJsonSchema(tool.parameters), tool.parameters, tool.name);
}
for (const tool of anthropic) {
  assert.equal(transformJSONSchema(tool.input_schema).type, "object", tool.name);
}
console.log(`${schemas.length} schemas`);
