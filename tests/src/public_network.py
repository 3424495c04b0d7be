"""A name server and a web server: server.py DIRECTORY. The file `heard` there has a line for each query and
request. Every name has a public address until a request was answered, and a private one from then on."""
import os, socket, struct, sys, threading, time

directory = sys.argv[1]
heard = open(directory + "/heard", "w", buffering=1)
answered = threading.Event()
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("", 53))
web = socket.create_server(("", 80))


def serve_names():
    while True:
        query, client = names.recvfrom(600)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("latin1"))
            at += 1 + query[at]
        print("name", ".".join(labels).lower(), file=heard)
        answer = b""
        if query[at + 1 : at + 3] == b"\0\1":
            address = "10.1.2.3" if answered.is_set() else "11.0.0.2"
            answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
        head = query[:2] + struct.pack(">5H", 0x8180, 1, bool(answer), 0, 0)
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
