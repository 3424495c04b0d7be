"""A name server and a web server: server.py DIRECTORY. The file `heard` there has a line for each query and
request. Every name has a public address until a request was answered, and a private one from then on. The
names of ALIASES have others in between: the last is the address."""
import os, socket, struct, sys, threading, time

ALIASES = {
    "inward.test": ["packages.test", "deep.test", "10.1.2.3"],
    "metadata.test": ["packages.test", "169.254.169.254"],
    "outward.test": ["middle.test", "deep.test", "11.0.0.2"],
}
directory = sys.argv[1]
heard = open(directory + "/heard", "w", buffering=1)
answered = threading.Event()
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("", 53))
web = socket.create_server(("", 80))


def encoded(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def serve_names():
    while True:
        query, client = names.recvfrom(600)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("latin1"))
            at += 1 + query[at]
        name = ".".join(labels).lower()
        print("name", name, file=heard)
        answer, records = b"", 0
        if query[at + 1 : at + 3] == b"\0\1":
            address = "10.1.2.3" if answered.is_set() else "11.0.0.2"
            *aliases, address = ALIASES.get(name, [address])
            owner = b"\xc0\x0c"
            for alias in map(encoded, aliases):
                answer += owner + struct.pack(">HHIH", 5, 1, 0, len(alias)) + alias
                owner, records = alias, records + 1
            answer += owner + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
            records += 1
        head = query[:2] + struct.pack(">5H", 0x8180, 1, records, 0, 0)
        names.sendto(head + query[12 : at + 5] + answer, client)


def end_with_daemon(daemon):
    # PR_SET_PDEATHSIG would need a parent that may signal this process, and the daemon has given that up.
    while os.getppid() == daemon:
        time.sleep(0.2)
    os._exit(0)


threading.Thread(target=end_with_daemon, args=(os.getppid(),), daemon=True).start()
threading.Thread(target=serve_names, daemon=True).start()
with open(directory + "/started", "w") as started:
    started.write(f"{os.getpid()}\n")
while True:
    client, _ = web.accept()
    try:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = client.recv(4096)
            if not piece:
                break
            head += piece
        print("request", client.getsockname()[0], head.split()[1].decode(), file=heard)
        answered.set()
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
    except (ConnectionError, IndexError):
        print("request", client.getsockname()[0], "broken", file=heard)
    client.close()
