// The clients of the SDK for TypeScript, versions 1 and 2, on pipes and over HTTP, in each era of the protocol that they know. Each
// does what an agent does. The files and processes of the host are the witness. Started by tests/agents/run.
//   node client.mjs SERVER URL TOKEN_FILE WORKSPACE
import assert from "node:assert/strict";
import fs from "node:fs";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";

const [server, url, tokenFile, workspace] = process.argv.slice(2);
const own = { name: "typescript", version: "1" };
const authorization = `Bearer ${fs.readFileSync(tokenFile, "utf8")}`;
const here = (name) => `${workspace}/${name}`;
const picture = Buffer.from("iVBORw0KGgowMDAw", "base64");

// Returns whether a process has this mark as its name.
const marked = (mark) =>
  fs.readdirSync("/proc").some((pid) => {
    try {
      return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(mark);
    } catch {
      return false;
    }
  });

async function until(what, is) {
  for (let turn = 0; turn < 3000; turn++) {
    if (is()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`still not: ${what}`);
}

// Does what an agent does.
async function work(client, call) {
  const { tools } = await client.listTools();
  assert(tools.length > 20 && tools.some((tool) => tool.name === "bash"));
  fs.writeFileSync(here("kept.txt"), "precious\n");
  fs.writeFileSync(here("a.png"), picture);
  const counted = await call("bash", { command: "echo $((6*7))" });
  assert.match(counted.content[0].text, /^42\n\[exit 0\]/);
  assert.equal((await call("write_file", { path: "made.txt", content: "hello\n" })).isError, false);
  assert.equal(fs.readFileSync(here("made.txt"), "utf8"), "hello\n");
  fs.rmSync(here("made.txt"));
  const image = (await call("read_file", { path: "a.png" })).content[1];
  assert.deepEqual([image.type, image.mimeType, image.data], ["image", "image/png", picture.toString("base64")]);
  const denied = await call("bash", { command: "rm kept.txt" });
  assert.equal(denied.isError, true);
  assert.match(denied.content[0].text, /Denied: /);
  assert.equal(fs.readFileSync(here("kept.txt"), "utf8"), "precious\n");

  const mark = `palisade-mark-${process.pid}-${Math.random()}`;
  const stop = new AbortController();
  const running = call("bash", { command: `trap '' TERM; exec -a ${mark} sleep 600` }, { signal: stop.signal });
  const ended = assert.rejects(running);
  await until("the command runs", () => marked(mark));
  stop.abort();
  await ended;
  await until("the command is gone", () => !marked(mark));
  assert.match((await call("bash", { command: "echo on" })).content[0].text, /^on\n/);
}

const command = { command: server, args: ["--workspace", workspace], env: process.env };
const requestInit = { headers: { authorization } };
const modern = { versionNegotiation: { mode: "auto" } };
const cases = [
  ["1, pipes", () => new Client1(own), () => new Stdio1(command), "2025-11-25"],
  ["1, HTTP", () => new Client1(own), () => new Http1(new URL(url), { requestInit }), "2025-11-25"],
  ["2, pipes", () => new Client2(own), () => new Stdio2(command), "2025-11-25"],
  ["2, HTTP", () => new Client2(own), () => new Http2(new URL(url), { requestInit }), "2025-11-25"],
  ["2, pipes", () => new Client2(own, modern), () => new Stdio2(command), "2026-07-28"],
  ["2, HTTP", () => new Client2(own, modern), () => new Http2(new URL(url), { requestInit }), "2026-07-28"],
];
for (const [name, make, transport, version] of cases) {
  const client = make();
  const way = transport();
  await client.connect(way);
  const found = client.getNegotiatedProtocolVersion?.() ?? way.protocolVersion ?? way._protocolVersion ?? version;
  assert.equal(found, version, name);
  const isFirst = client instanceof Client1;
  const call = (tool, args, options) =>
    isFirst ? client.callTool({ name: tool, arguments: args }, undefined, options) : client.callTool({ name: tool, arguments: args }, options);
  await work(client, call);
  await client.close();
  console.log(`clients\tTypeScript SDK ${name}, ${version}: works`);
}
