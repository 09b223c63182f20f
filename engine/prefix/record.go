package prefix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"godwit/engine/llm"
)

// A record in a file is a header of fixed size, the tokens and the bytes.
const (
	recordMagic = "gwp1"
	sumAt       = 92
	crcAt       = sumAt + 32
	headerSize  = crcAt + 4
	mostData    = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errRecord is returned for a header that does not parse.
var errRecord = errors.New("prefix: this is not a record")

// header describes a record.
type header struct {
	key, parent Key
	before      int
	count       int // number of tokens
	tokens      []llm.Token
	point       bool
	blank       bool // the record was erased
	part        int
	size        int // size of the data
	made        int64
}

// length returns the size of the whole record in its file.
func (h *header) length() int64 { return headerSize + 4*int64(h.count) + int64(h.size) }

// length returns the size of a part's record in its file.
func (b *blob) length() int64 { return headerSize + 4*int64(len(b.of.tokens)) + int64(b.size) }

// header returns the header of a part's record.
func (b *blob) header() *header {
	n := b.of
	return &header{
		key: n.key, parent: n.parent, before: n.before, count: len(n.tokens), tokens: n.tokens,
		point: n.point, part: b.part, size: b.size,
	}
}

// appendHead writes the header up to its checksums.
func (h *header) appendHead(b []byte) []byte {
	kind := byte(0)
	switch {
	case h.point:
		kind = 1
	case h.blank:
		kind = 2
	}
	b = append(b, recordMagic...)
	b = append(b, kind, byte(h.part), 0, 0)
	for _, v := range []int{h.before, h.count, h.size} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(h.made))
	b = append(b, h.key[:]...)
	return append(b, h.parent[:]...)
}

// record returns the whole record with its checksums.
func (h *header) record(secret, data []byte) []byte {
	b := h.appendHead(make([]byte, 0, h.length()))
	tokens := tokenBytes(h.tokens)
	sum := keyed(secret, recordSum, b, tokens, data)
	b = append(b, sum[:]...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, tokens))
	return append(append(b, tokens...), data...)
}

// check verifies that raw is the record with this header and returns its data.
func (h *header) check(secret, raw []byte) ([]byte, error) {
	g, err := parseHeader(raw)
	if err != nil {
		return nil, err
	}
	tokens, data := raw[headerSize:headerSize+4*h.count], raw[headerSize+4*h.count:]
	sum := keyed(secret, recordSum, raw[:sumAt], tokens, data)
	if !bytes.Equal(sum[:], raw[sumAt:crcAt]) {
		return nil, errors.New("prefix: the checksum of a record is wrong")
	}
	if g.key != h.key || g.parent != h.parent || g.part != h.part || g.point != h.point || g.before != h.before ||
		g.count != h.count || g.size != h.size || !bytes.Equal(tokens, tokenBytes(h.tokens)) {
		return nil, errors.New("prefix: the wrong record is stored here")
	}
	return data, nil
}

// parseHeader reads a header and the tokens after it, and verifies their
// checksum.
func parseHeader(raw []byte) (*header, error) {
	if len(raw) < headerSize {
		return nil, io.EOF
	}
	if string(raw[:4]) != recordMagic {
		return nil, errRecord
	}
	h := &header{
		point: raw[4] == 1, blank: raw[4] == 2, part: int(raw[5]), key: Key(raw[28:60]), parent: Key(raw[60:92]),
		before: int(binary.LittleEndian.Uint32(raw[8:])), count: int(binary.LittleEndian.Uint32(raw[12:])),
		size: int(binary.LittleEndian.Uint32(raw[16:])), made: int64(binary.LittleEndian.Uint64(raw[20:])),
	}
	if h.count > PageTokens || !h.point && !h.blank && h.count != PageTokens || h.part >= MaxParts || h.size > mostData || h.made < 0 || h.before > 1<<26 {
		return nil, errRecord
	}
	end := headerSize + 4*h.count
	if len(raw) < end {
		return nil, io.EOF
	}
	if sum := crc32.Checksum(raw[:crcAt], castagnoli); crc32.Update(sum, castagnoli, raw[headerSize:end]) != binary.LittleEndian.Uint32(raw[crcAt:]) {
		return nil, errRecord
	}
	return h, nil
}

// readHeader reads the header and the tokens of the record at an offset. It
// returns io.EOF if the file ends within them.
func readHeader(r io.ReaderAt, at int64) (*header, []byte, error) {
	raw := make([]byte, headerSize+4*PageTokens)
	n, err := r.ReadAt(raw, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	h, err := parseHeader(raw[:n])
	if err != nil {
		return nil, nil, err
	}
	return h, raw[headerSize : headerSize+4*h.count], nil
}
