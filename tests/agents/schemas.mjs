// Holds the schemas of `palisade tools` to other people's validators: AJV in strict mode, the MCP SDK's own types, and the
// transformations of OpenAI's and Anthropic's SDKs.
//   node schemas.mjs PALISADE     the program; the packages are those of package.json
import { execFileSync } from "node:child_process";
import assert from "node:assert/strict";
import Ajv from "ajv";
import Ajv2020 from "ajv/dist/2020.js";
import { ListToolsResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { toStrictJsonSchema } from "openai/lib/transform";
import { transformJSONSchema } from "@anthropic-ai/sdk/lib/transform-json-schema";

const palisade = process.argv[2];
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
// A mistake in a schema is an error, and so is anything that AJV would only warn of.
const logger = { log() {}, warn: (text) => assert.fail(text), error: (text) => assert.fail(text) };
for (const validator of [new Ajv({ strict: true, logger }), new Ajv2020({ strict: true, logger })]) {
  for (const [name, schema] of schemas) {
    assert.doesNotThrow(() => validator.compile(schema), name);
  }
}
assert.throws(() => new Ajv({ strict: true }).compile({ type: "object", nonsense: 1 }), "control");

ListToolsResultSchema.parse({ tools: mcp });
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
