"""Frames from a worker are hostile until shown otherwise."""

import asyncio
import os
import random
import socket

import pytest

from stockade_daemon.sandbox.channel import ChannelClosed, FrameChannel
from stockade_worker.frames import PREFIX, BrokenFrame, Channel, Decoder, encode


def test_frames_survive_any_cutting_of_the_stream() -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    frames = [
        ({"type": "t", "n": n, "text": "ü" * rng.randrange(50)}, rng.randbytes(rng.randrange(200))) for n in range(50)
    ]
    stream = b"".join(encode(header, blob) for header, blob in frames)
    decoder, found, position = Decoder(), [], 0
    while position < len(stream):
        size = rng.randrange(1, 40)
        found += decoder.feed(stream[position : position + size])
        position += size
    assert [(frame.header, frame.blob) for frame in found] == frames
    assert decoder.pending == 0


BROKEN = {
    "an oversize header": PREFIX.pack(1 << 30, 0),
    "an oversize blob": PREFIX.pack(10, 1 << 31),
    "no json": PREFIX.pack(3, 0) + b"{x}",
    "no object": PREFIX.pack(2, 0) + b"[]",
    "no type": PREFIX.pack(2, 0) + b"{}",
    "a type that is no text": PREFIX.pack(10, 0) + b'{"type":1}',
    "a key twice": PREFIX.pack(23, 0) + b'{"type":"a","type":"b"}',
    "deep nesting": (lambda text: PREFIX.pack(len(text), 0) + text)(
        b'{"type":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    ),
    "no utf-8": PREFIX.pack(13, 0) + b'{"type":"\xff\xfe"}',
}


@pytest.mark.parametrize("stream", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_frame_is_refused(stream: bytes) -> None:
    with pytest.raises(BrokenFrame):
        Decoder(max_header=1 << 20, max_blob=1 << 20).feed(stream)


@pytest.mark.parametrize("stream", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_stream_is_an_error_of_its_reader_and_stays_one(stream: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs, FrameChannel(ours, max_blob=1 << 20) as channel:
        theirs.sendall(encode({"type": "good"}))
        sending = asyncio.get_running_loop().run_in_executor(None, _send, theirs, stream)
        assert (await channel.receive()).type == "good"
        for _ in range(2):
            with pytest.raises(BrokenFrame):
                await channel.receive()
        channel.close()
        await sending


def _send(end: socket.socket, stream: bytes) -> None:
    try:
        end.sendall(stream)
    except OSError:
        return  # the reader has seen enough


async def test_the_end_of_the_stream_is_told_after_the_frames_before_it() -> None:
    ours, theirs = socket.socketpair()
    with FrameChannel(ours) as channel:
        theirs.sendall(encode({"type": "last"}))
        theirs.close()
        assert (await channel.receive()).type == "last"
        with pytest.raises(ChannelClosed):
            await channel.receive()


async def test_descriptors_from_a_body_are_dropped() -> None:
    ours, theirs = socket.socketpair()
    before = len(os.listdir("/proc/self/fd"))
    with FrameChannel(ours) as channel:
        Channel(theirs).send({"type": "gift"}, descriptors=(0, 1, 2))
        frame = await channel.receive()
        assert frame.descriptors == ()
        assert len(os.listdir("/proc/self/fd")) <= before
    theirs.close()


async def test_frames_that_nobody_asks_for_stay_in_the_senders_way() -> None:
    """A flood stops at the socket's buffer instead of filling the daemon's memory."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    frame = encode({"type": "flood"}, b"x" * 60_000)
    with theirs, FrameChannel(ours, max_blob=1 << 20) as channel:
        sent = 0
        for _ in range(3000):
            try:
                sent += theirs.send(frame[sent % len(frame) :])
            except BlockingIOError:
                await asyncio.sleep(0)
        assert sent < 300 * len(frame)
        for _ in range(16):
            assert (await channel.receive()).type == "flood"
