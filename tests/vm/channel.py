"""The command channel of a guest. A request is one line: a token and a script in base64. A reply is one line: the
token, the exit status and the output (both streams) in base64. guest_loop.sh has the other end. Replies come in any
order, because each script runs as a process of its own.
"""
import base64
import collections
import re
import select
import threading
import time

Reply = collections.namedtuple('Reply', 'status output')
_REPLY = re.compile(rb'(r\d+) (\d+) ([A-Za-z0-9+/=]*)')


class ChannelError(AssertionError):
    """The guest has closed the channel, or sends something other than replies."""


def encode_request(token, script):
    data = script if isinstance(script, bytes) else script.encode()
    return token.encode() + b' ' + base64.b64encode(data) + b'\n'


def decode_replies(buffer):
    """Splits bytes from the guest. Returns ({token: Reply}, the bytes of the line that is not complete yet)."""
    *lines, rest = buffer.split(b'\n')
    replies = {}
    for line in lines:
        match = _REPLY.fullmatch(line)
        if not match:
            raise ChannelError(f'not a reply: {line[:200]!r}')
        token = match.group(1).decode()
        if token in replies:
            raise ChannelError(f'two replies to {token}')
        replies[token] = Reply(int(match.group(2)), base64.b64decode(match.group(3), validate=True))
    return replies, rest


def signal_script(folder, token, name):
    """A script that sends a signal to all processes of the script with this token. Fails if the script has ended."""
    return (f'cd {folder} && while [ -e {token}.sh ] && [ ! -s {token}.pid ]; do sleep 0.02; done; '
            f'kill -{name} -$(cat {token}.pid)')


class Channel:
    """One end of a stream socket. Several threads may wait for replies at the same time."""

    def __init__(self, connection):
        self._connection = connection
        self._lock = threading.Lock()
        self._rest = b''
        self._replies = {}
        self._count = 0

    def send(self, script, timeout):
        """Sends a script and returns its token. A guest that does not read for `timeout` seconds is an error."""
        with self._lock:
            self._count += 1
            token = f'r{self._count}'
            self._connection.settimeout(timeout)
            try:
                self._connection.sendall(encode_request(token, script))
            except OSError as error:
                raise ChannelError(f'the guest does not read: {error}') from None
            return token

    def reply(self, token, timeout):
        """The reply to this token, or None if it does not come in time."""
        deadline = time.monotonic() + timeout
        while True:
            with self._lock:  # held for a moment only, so that other threads get their replies
                if token in self._replies:
                    return self._replies.pop(token)
                self._receive(min(0.05, max(0.0, deadline - time.monotonic())))
                if token in self._replies:
                    return self._replies.pop(token)
            if time.monotonic() > deadline:
                return None

    def _receive(self, timeout):
        readable, _, _ = select.select([self._connection], [], [], timeout)
        if not readable:
            return
        try:
            data = self._connection.recv(1 << 20)
        except OSError as error:
            raise ChannelError(f'the channel is broken: {error}') from None
        if not data:
            raise ChannelError('the guest has closed the channel')
        replies, self._rest = decode_replies(self._rest + data)
        self._replies.update(replies)

    def close(self):
        self._connection.close()
