# The client of the SDK for Python, on pipes and over HTTP, in each era of the protocol that it knows. It does what an agent does. The
# files and processes of the host are the witness. Started by tests/agents/run.
#   client.py SERVER URL TOKEN_FILE WORKSPACE
import asyncio, base64, glob, os, sys, uuid

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

server, url, token_file, workspace = sys.argv[1:]
PICTURE = base64.b64decode("iVBORw0KGgowMDAw")


def path(name):
    return os.path.join(workspace, name)


def read(name):
    with open(path(name)) as file:
        return file.read()


def marked(mark):
    for name in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(name, "rb") as file:
                if file.read().startswith(mark.encode()):
                    return True
        except OSError:
            pass
    return False


async def until(what, found):
    for _ in range(3000):
        if found():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"still not: {what}")


async def work(client):
    tools = (await client.list_tools()).tools
    assert len(tools) > 20 and "bash" in [tool.name for tool in tools], tools
    with open(path("kept.txt"), "w") as file:
        file.write("precious\n")
    with open(path("a.png"), "wb") as file:
        file.write(PICTURE)
    counted = await client.call_tool("bash", {"command": "echo $((6*7))"})
    assert counted.content[0].text.startswith("42\n[exit 0]"), counted
    assert not (await client.call_tool("write_file", {"path": "made.txt", "content": "hello\n"})).is_error
    assert read("made.txt") == "hello\n"
    os.remove(path("made.txt"))
    image = (await client.call_tool("read_file", {"path": "a.png"})).content[1]
    assert (image.type, image.mime_type, base64.b64decode(image.data)) == ("image", "image/png", PICTURE), image
    denied = await client.call_tool("bash", {"command": "rm kept.txt"})
    assert denied.is_error and "Denied: " in denied.content[0].text, denied
    assert read("kept.txt") == "precious\n"

    mark = f"palisade-mark-{uuid.uuid4()}"
    line = f"trap '' TERM; exec -a {mark} sleep 600"
    running = asyncio.create_task(client.call_tool("bash", {"command": line}))
    await until("the command runs", lambda: marked(mark))
    running.cancel()
    await until("the command is gone", lambda: not marked(mark))
    again = await client.call_tool("bash", {"command": "echo on"})
    assert again.content[0].text.startswith("on\n"), again


async def main():
    pipes = lambda _: StdioServerParameters(command=server, args=["--workspace", workspace], env=dict(os.environ))
    http = lambda web: streamable_http_client(url, http_client=web)
    with open(token_file) as file:
        headers = {"authorization": f"Bearer {file.read()}"}
    for way, name in ((pipes, "pipes"), (http, "HTTP")):
        for mode, version in (("legacy", "2025-11-25"), ("auto", "2026-07-28")):
            async with httpx2.AsyncClient(headers=headers, timeout=300) as web, Client(way(web), mode=mode) as client:
                assert client.session.protocol_version == version, client.session.protocol_version
                await work(client)
            print(f"clients\tPython SDK, {name}, {version}: works", flush=True)


asyncio.run(main())
