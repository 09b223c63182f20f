#!/usr/bin/env python3
"""layers.py MODEL N OUT writes a GGUF file with only the first N blocks of a model.

Such a file shares the vocabulary of the model and is a draft model for it, with no
training. docs/performance.md says what it gains.
"""
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            of, n = self.number("I"), self.number("Q")
            if of in SIZES:
                self.take(n * SIZES[of])
            else:
                for _ in range(n):
                    self.skip(of)
        else:
            self.take(SIZES[kind])


def main():
    path, keep, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    r = Reader(open(path, "rb").read())
    head = r.take(8)
    tensors, values = r.number("Q"), r.number("Q")
    pairs, align = [], 32
    for _ in range(values):
        first = r.at
        key = r.text()
        kind = r.number("I")
        at = r.at
        r.skip(kind)
        raw = r.data[first:r.at]
        if key.endswith(b".block_count"):
            raw = r.data[first:at] + struct.pack("<I", keep)
        if key == b"general.alignment":
            align = struct.unpack("<I", r.data[at:r.at])[0]
        pairs.append(raw)
    infos = []
    for _ in range(tensors):
        name = r.text()
        shape = [r.number("Q") for _ in range(r.number("I"))]
        infos.append((name, shape, r.number("I"), r.number("Q")))
    data = -(-r.at // align) * align
    ends = sorted([i[3] for i in infos]) + [len(r.data) - data]
    end = dict(zip(ends, ends[1:]))
    kept = [i for i in infos if not i[0].startswith(b"blk.") or int(i[0].split(b".")[1]) < keep]
    body, listed = b"", b""
    for name, shape, kind, offset in kept:
        listed += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        listed += b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", kind, len(body))
        body += r.data[data + offset:data + end[offset]]
        body += b"\0" * (-len(body) % align)
    front = head + struct.pack("<QQ", len(kept), values) + b"".join(pairs) + listed
    with open(out, "wb") as f:
        f.write(front + b"\0" * (-len(front) % align) + body)


main()
