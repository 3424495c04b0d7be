#!/usr/bin/env python3
"""An embedded daemon that carries both its connections to the test that listens beside it."""
import os, socket, sys, threading

assert sys.argv[1:] == ["--embedded", "--operator-stdout", "--only-profile", "--one-call"], sys.argv
beside = os.path.dirname(os.path.abspath(sys.argv[0]))


def pump(source, sink):
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)


def carry(descriptor, name):
    ours = socket.socket(fileno=descriptor)
    theirs = socket.socket(socket.AF_UNIX)
    theirs.connect(os.path.join(beside, name))
    threading.Thread(target=pump, args=(theirs, ours), daemon=True).start()
    pump(ours, theirs)


threading.Thread(target=carry, args=(1, "operator.sock"), daemon=True).start()
carry(0, "agent.sock")
