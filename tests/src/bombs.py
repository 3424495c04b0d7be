"""Takes as many of one resource of the kernel as it is told to, or as it gets.

Arguments: the resource, how many, and `hold` to keep them until it is killed. Prints how many it
has taken, and the error of the next one, or `all`.
"""

import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

library = ctypes.CDLL(None, use_errno=True)
held = []


def call(number, *arguments):
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = library.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def timers(count):
    timer = ctypes.c_int()
    call(222, 1, None, ctypes.byref(timer))


def signals(count):
    signal.pthread_sigmask(signal.SIG_BLOCK, [40])
    # Queued with a value, as by sigqueue: others are dropped where there is no room.
    call(129, os.getpid(), 40, struct.pack("3i", 40, 0, -1) + bytes(116))


def timerfds(count):
    held.append(call(283, 1, 0))


def eventfds(count):
    held.append(call(290, 0, 0))


def epolls(count):
    held.append(select.epoll())


def watches(count):
    """A thousand descriptors in each of many sets."""
    if count == 0:
        held.append([call(290, 0, 0) for _ in range(1000)])
    if count % 1000 == 0:
        held.append(select.epoll())
    held[-1].register(held[0][count % 1000], select.EPOLLIN)


def memfds(count):
    held.append(call(319, ctypes.c_char_p(b"bomb"), 0))


def sockets(count):
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))


def inotify(count):
    held.append(call(294, 0))


def terminals(count):
    held.append(os.openpty())


def events(count):
    """A context of asynchronous input and output, for 64 events."""
    call(206, 64, ctypes.byref(ctypes.c_ulong(0)))


def keys(count):
    name = ctypes.c_char_p(b"bomb-%d" % count)
    call(248, ctypes.c_char_p(b"user"), name, ctypes.c_char_p(b"x"), 1, -2)


def queues(count):
    """A POSIX message queue for one message of a KiB.

    Its name is removed at once, except where Landlock lets nobody open it: it is made all the same.
    """
    name = ctypes.c_char_p(b"bomb-%d-%d" % (os.getpid(), count))
    attributes = struct.pack("8l", 0, 1, 1024, 0, 0, 0, 0, 0)
    try:
        held.append(call(240, name, 0o302, 0o600, ctypes.c_char_p(attributes)))
        call(241, name)
    except PermissionError as error:
        if error.errno != errno.EACCES:
            raise


def fill(descriptor):
    os.set_blocking(descriptor, False)
    try:
        while True:
            os.write(descriptor, bytes(4096))
    except BlockingIOError:
        pass


def pipes(count):
    """A pipe of a MiB, filled."""
    ends = os.pipe()
    held.append(ends)
    fcntl.fcntl(ends[1], 1031, 1 << 20)
    fill(ends[1])


def flying(count):
    """A descriptor in a message that nobody receives."""
    if count % 100 == 0:
        held.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
    socket.send_fds(held[-1][0], [b"x"], [0])


def buffers(count):
    """A pair of Unix sockets, filled in both directions."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    held.append(pair)
    for end in pair:
        fill(end.fileno())


def semaphores(count):
    """A set of 32,000 semaphores, of 64 bytes each."""
    call(64, 0, 32000, 0o600)


def messages(count):
    """A System V message of 8,000 bytes; a queue has room for two."""
    if count % 2 == 0:
        held[:] = [call(68, 0, 0o600)]
    call(69, held[0], ctypes.create_string_buffer(struct.pack("l", 1) + bytes(8000)), 8000, 0o4000)


def segments(count):
    """A MiB of System V shared memory."""
    library.shmat.restype = ctypes.c_void_p
    place = library.shmat(call(29, 0, 1 << 20, 0o600), None, 0)
    ctypes.memset(place, 1, 1 << 20)


def main():
    act, most = globals()[sys.argv[1]], int(sys.argv[2])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    taken, why = 0, "all"
    try:
        while taken < most:
            act(taken)
            taken += 1
    except OSError as error:
        why = errno.errorcode.get(error.errno, str(error.errno))
    print(taken, why, flush=True)
    if "hold" in sys.argv:
        time.sleep(1000)


main()
