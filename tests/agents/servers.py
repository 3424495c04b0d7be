# Real servers behind `palisade mcp wrap`, as an agent calls them. The workspace is the witness. Started by tests/agents/servers.
import json, os, subprocess, sys, tempfile

palisade, place, only = sys.argv[1], sys.argv[2], sys.argv[3:]

PROFILE = """version = 1
description = "A server that is installed in {place}."
extends = "{base}"
widen = true

[fs]
execute = ["{place}"]
"""


class Server:
    def __init__(self, name, base, command, top):
        self.work, self.requests = os.path.join(top, "work"), 0
        profiles = os.path.join(top, "profiles")
        os.makedirs(profiles)
        os.makedirs(self.work)
        with open(os.path.join(profiles, "server.toml"), "w") as file:
            file.write(PROFILE.format(place=place, base=base))
        words = [palisade, "mcp", "wrap", "--name", name, "--profile", "server", "--profiles", profiles,
                 "--workspace", self.work, "--", *command]
        state = {**os.environ, "XDG_STATE_HOME": os.path.join(top, "state"), "PALISADE_LINGER": "none"}
        self.write("a.txt", "hello\n")
        subprocess.run(["git", "init", "-q", self.work], check=True)
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=state)
        client = {"name": "test", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.say({"method": "notifications/initialized"})
        self.tools = [tool["name"] for tool in self.ask("tools/list", {})["tools"]]

    def write(self, name, text):
        with open(os.path.join(self.work, name), "w") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.work, name)) as file:
            return file.read()

    def say(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.requests += 1
        self.say({"id": self.requests, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            assert line, "the relay has ended"
            message = json.loads(line)
            if message.get("id") == self.requests:
                assert "result" in message, message
                return message["result"]

    def call(self, tool, fails=False, **arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert result["isError"] == fails, result
        return "\n".join(block.get("text", "") for block in result["content"])

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def holds(text, part):
    assert part in text, text


def filesystem(server):
    path = os.path.join(server.work, "a.txt")
    holds(server.call("read_text_file", path=path), "hello")
    holds(server.call("write_file", path=os.path.join(server.work, "b.txt"), content="new\n"), "[committed to the workspace: ?? b.txt")
    assert server.read("b.txt") == "new\n"
    holds(server.call("write_file", fails=True, path=path, content="gone\n"), "was discarded")
    assert server.read("a.txt") == "hello\n"
    holds(server.call("list_directory", path=server.work), "b.txt")


def everything(server):
    holds(server.call("echo", message="hi"), "Echo: hi")
    assert server.ask("resources/list", {})["resources"] and server.ask("prompts/list", {})["prompts"]
    # What it offers only to clients that can be asked.
    assert not [name for name in server.tools if "sampling" in name or "elicitation" in name], server.tools


def git(server):
    holds(server.call("git_status", repo_path=server.work), "a.txt")
    server.call("git_add", repo_path=server.work, files=["a.txt"])
    staged = subprocess.run(["git", "-C", server.work, "diff", "--cached", "--name-only"], capture_output=True, text=True)
    assert staged.stdout == "a.txt\n", staged


def fetch(server):
    holds(server.call("fetch", url="http://127.0.0.1:8000/a.txt"), "hello")
    holds(server.call("fetch", fails=True, url="http://192.0.2.1/"), "192.0.2.1")


def sqlite(server):
    server.call("create_table", query="create table t (a integer)")
    holds(server.call("write_query", query="insert into t values (41)"), "[committed to the workspace:  M t.db")
    holds(server.call("read_query", query="select a + 1 as b from t"), "42")
    assert os.path.getsize(os.path.join(server.work, "t.db")) > 0


python = os.path.join(place, "py/bin")
# The page to fetch is served inside of the session.
fetching = "/usr/bin/python3 -m http.server 8000 >/dev/null 2>&1 & until echo > /dev/tcp/127.0.0.1/8000; do sleep 0.1; done 2>/dev/null; "
SERVERS = {
    "filesystem": (filesystem, "workspace", lambda top: [f"{place}/npm/node_modules/.bin/mcp-server-filesystem", f"{top}/work"]),
    "everything": (everything, "readonly", lambda top: [f"{place}/npm/node_modules/.bin/mcp-server-everything"]),
    "git": (git, "workspace", lambda top: [f"{python}/mcp-server-git"]),
    "fetch": (fetch, "readonly", lambda top: ["bash", "-c", f"{fetching}exec {python}/mcp-server-fetch --ignore-robots-txt --allow-private-ips"]),
    "sqlite": (sqlite, "workspace", lambda top: [f"{place}/py-sqlite/bin/mcp-server-sqlite", "--db-path", f"{top}/work/t.db"]),
}
for name in only or SERVERS:
    attempt, base, command = SERVERS[name]
    with tempfile.TemporaryDirectory(prefix="palisade-servers-") as top:
        server = Server(name, base, command(top), top)
        attempt(server)
        server.end()
        print(f"{name}\t{len(server.tools)} tools, works", flush=True)
