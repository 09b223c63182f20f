package eval

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"

	"godwit/engine"
	"godwit/engine/llm"
)

// ErrBase is the class of errors about base files that cannot be used.
var ErrBase = errors.New("base file")

// baseMagic starts a base file. A uint32 length and a baseHeader in JSON follow,
// and then a row for every counted position. A row has the largest log-probability
// and the step as float32, a uint16 for each token of the vocabulary, which is the
// number of steps below the largest, and a CRC-32 of all that. Numbers are little
// endian.
const baseMagic = "GWBASE1\n"

// maxBaseHeader and maxBaseVocab limit how much memory a file can make a reader
// allocate.
const (
	maxBaseHeader = 1 << 20
	maxBaseVocab  = 1 << 22
)

// baseHeader describes the measurement in a base file.
type baseHeader struct {
	Model   string   `json:"model"` // identity of the model's file, in hex
	Name    string   `json:"name"`
	Vocab   int      `json:"vocab"`
	Context int      `json:"context"`
	Every   int      `json:"every,omitempty"` // one prediction in this many is kept; 0: all
	Chunks  []string `json:"chunks"`          // hash of each chunk's tokens, from hashChunk
	TypeK   string   `json:"type_k"`
	TypeV   string   `json:"type_v"`
}

func (h *baseHeader) rowBytes() int { return 12 + 2*h.Vocab }

// identity returns the identity of the model's file as text.
func identity(e *engine.Engine) string {
	id := e.Model().File.Identity()
	return hex.EncodeToString(id[:])
}

// hashChunk returns the start of the SHA-256 of a chunk's tokens, in hex.
func hashChunk(c []llm.Token) string {
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, c) // writing to a hash never fails
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// SaveBase runs e over the chunks of a text and writes the log-probabilities, in 16
// bits each, to a file for later comparisons. The file appears when it is complete.
// SaveBase returns the perplexity of the run.
func SaveBase(ctx context.Context, path string, e *engine.Engine, tokens []llm.Token, w Window) (PerplexityResult, error) {
	chunks, err := w.chunks(tokens)
	if err != nil {
		return PerplexityResult{}, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part*")
	if err != nil {
		return PerplexityResult{}, err
	}
	r, err := writeBase(ctx, f, e, tokens, chunks, w)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return r, err
}

func writeBase(ctx context.Context, f io.Writer, e *engine.Engine, tokens []llm.Token, chunks [][]llm.Token, w Window) (PerplexityResult, error) {
	h := baseHeader{
		Model: identity(e), Name: e.Config().Name, Vocab: e.Config().Vocab,
		Context: w.Context, Every: w.Every,
	}
	for _, c := range chunks {
		h.Chunks = append(h.Chunks, hashChunk(c))
	}
	h.TypeK, h.TypeV = Types(e)
	head, err := json.Marshal(h)
	if err != nil {
		return PerplexityResult{}, err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	start := binary.LittleEndian.AppendUint32([]byte(baseMagic), uint32(len(head)))
	if _, err := out.Write(append(start, head...)); err != nil {
		return PerplexityResult{}, err
	}
	row := make([]byte, h.rowBytes())
	r, err := perplexity(ctx, e, tokens, w, func(logits []float32, sum float64) error {
		packRow(row, logits, sum)
		_, err := out.Write(row)
		return err
	})
	return r, errors.Join(err, out.Flush())
}

// packRow writes log-probabilities as a row of a base file.
func packRow(dst []byte, logits []float32, sum float64) {
	low, top := logits[0], logits[0]
	for _, v := range logits {
		low, top = min(low, v), max(top, v)
	}
	step := (top - low) / math.MaxUint16
	le := binary.LittleEndian
	le.PutUint32(dst, math.Float32bits(float32(float64(top)-sum)))
	le.PutUint32(dst[4:], math.Float32bits(step))
	inv := float32(0)
	if step > 0 {
		inv = 1 / step
	}
	for i, v := range logits {
		le.PutUint16(dst[8+2*i:], uint16(min((top-v)*inv+0.5, math.MaxUint16)))
	}
	end := len(dst) - 4
	le.PutUint32(dst[end:], crc32.ChecksumIEEE(dst[:end]))
}

// unpackRow restores log-probabilities.
func unpackRow(dst []float32, row []byte) error {
	le, end := binary.LittleEndian, len(row)-4
	if le.Uint32(row[end:]) != crc32.ChecksumIEEE(row[:end]) {
		return errors.New("damaged: the checksum does not match")
	}
	top, step := math.Float32frombits(le.Uint32(row)), math.Float32frombits(le.Uint32(row[4:]))
	for i := range dst {
		dst[i] = top - step*float32(le.Uint16(row[8+2*i:]))
	}
	return nil
}

// Base is an open base file.
type Base struct {
	head baseHeader
	path string
	file *os.File
	data int64 // offset of the first row
	row  []byte
}

// OpenBase opens a base file and checks that it is complete.
func OpenBase(path string) (*Base, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &Base{path: path, file: f}
	if err := b.readHeader(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w %s: %w", ErrBase, path, err), f.Close())
	}
	b.row = make([]byte, b.head.rowBytes())
	return b, nil
}

func (b *Base) readHeader() error {
	start := make([]byte, len(baseMagic)+4)
	if _, err := io.ReadFull(b.file, start); err != nil || string(start[:len(baseMagic)]) != baseMagic {
		return errors.New("not a base file of log-probabilities")
	}
	n := binary.LittleEndian.Uint32(start[len(baseMagic):])
	if n > maxBaseHeader {
		return fmt.Errorf("header of %d bytes, at most %d", n, maxBaseHeader)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(b.file, head); err != nil {
		return errors.New("ends within its header")
	}
	if err := json.Unmarshal(head, &b.head); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	h := &b.head
	if h.Vocab < 1 || h.Vocab > maxBaseVocab || h.Context < MinWindow || h.Every < 0 || h.Context > 1<<24 || len(h.Chunks) == 0 {
		return fmt.Errorf("vocabulary %d, context %d, %d chunks", h.Vocab, h.Context, len(h.Chunks))
	}
	b.data = int64(len(start)) + int64(n)
	info, err := b.file.Stat()
	if err != nil {
		return err
	}
	rows := int64(len(h.Chunks)) * int64(h.counted())
	if want := b.data + rows*int64(h.rowBytes()); info.Size() != want {
		return fmt.Errorf("%d bytes, %d rows need %d", info.Size(), rows, want)
	}
	return nil
}

// counted returns the number of counted positions of a chunk.
func (h *baseHeader) counted() int {
	n, every := h.Context-1-h.Context/2, max(h.Every, 1)
	return n/every + min(n%every, 1)
}

// Close closes the file.
func (b *Base) Close() error { return b.file.Close() }

// check rejects a comparison with another model, vocabulary or text.
func (b *Base) check(e *engine.Engine, chunks [][]llm.Token, w *Window) error {
	h, vocab := &b.head, e.Config().Vocab
	switch {
	case h.Vocab != vocab:
		return fmt.Errorf("%w %s: it has a vocabulary of %d tokens, but the model's has %d", ErrBase, b.path, h.Vocab, vocab)
	case h.Model != identity(e):
		return fmt.Errorf("%w %s: it was made with another model, %q (%.12s…); this one is %q (%.12s…)", ErrBase, b.path, h.Name, h.Model, e.Config().Name, identity(e))
	case h.Context != w.Context || len(h.Chunks) < len(chunks):
		return fmt.Errorf("%w %s: it has %d chunks of %d tokens, but this run needs %d of %d", ErrBase, b.path, len(h.Chunks), h.Context, len(chunks), w.Context)
	case max(h.Every, 1) != max(w.Every, 1):
		return fmt.Errorf("%w %s: it has one of every %d predictions, but this run needs one of every %d", ErrBase, b.path, max(h.Every, 1), max(w.Every, 1))
	}
	for i, c := range chunks {
		if h.Chunks[i] != hashChunk(c) {
			return fmt.Errorf("%w %s: it was made with another text; chunk %d differs", ErrBase, b.path, i)
		}
	}
	return nil
}

// read fills dst with the log-probabilities of counted position n of a chunk.
func (b *Base) read(dst []float32, chunk, n int) error {
	at := b.data + int64(chunk*b.head.counted()+n)*int64(len(b.row))
	if _, err := b.file.ReadAt(b.row, at); err != nil {
		return fmt.Errorf("%w %s: chunk %d, row %d: %w", ErrBase, b.path, chunk, n, err)
	}
	if err := unpackRow(dst, b.row); err != nil {
		return fmt.Errorf("%w %s: chunk %d, row %d: %w", ErrBase, b.path, chunk, n, err)
	}
	return nil
}
