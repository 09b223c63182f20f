package calibrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// partial is the progress of an unfinished calibration. It is saved next to the
// calibrations, so that a killed run can continue.
//
// While keys are being read, it contains their sums and, as a saved slot, the
// cells of the tokens read so far. After that it contains the finished channels
// and the sensitivities measured so far.
//
// The file consists of a magic number, the format version, a JSON header, a
// body, the SHA-256 of all of these, and the saved slot, which has its own
// checksum.
type partial struct {
	Model string    `json:"model"`
	Input string    `json:"input"`           // digest of the tokens
	Read  int       `json:"read"`            // number of tokens whose keys are in the sums
	Body  int       `json:"body"`            // size of the sums or of the calibration, in bytes
	Sense []float64 `json:"sense,omitempty"` // sensitivities of the first caches, in the order of measuring
	body  []byte
	whole *layout.Calibration // nil while keys are being read
	file  *os.File            // positioned at the saved slot; nil without one
}

const (
	partialMagic   = "gwcp\r\n\x1a\n"
	partialVersion = 1
	partialHeader  = 1 << 20 // largest size of a header
	partialBody    = 1 << 28 // largest size of a body
	partialSlot    = 1 << 30 // largest size of the cells that are saved
)

func (m *Model) partialPath(dir string) string {
	return strings.TrimSuffix(m.Path(dir), ".calibration") + ".partial"
}

// inputDigest identifies the tokens of a calibration.
func inputDigest(lists ...[]llm.Token) string {
	sum := sha256.New()
	for _, list := range lists {
		_ = binary.Write(sum, binary.LittleEndian, int64(len(list))) // writing to a hash never fails
		_ = binary.Write(sum, binary.LittleEndian, list)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// readPartial reads the progress that an earlier run saved for the same tokens.
// It returns fs.ErrNotExist if that is missing, and layout.ErrCalibration if it
// cannot be used.
func (m *Model) readPartial(dir, input string) (*partial, error) {
	path := m.partialPath(dir)
	f, err := openOrdinary(path)
	if err != nil {
		return nil, err
	}
	p, err := decodePartial(f)
	if err == nil {
		if p.Model != m.ID || p.Input != input {
			err = fmt.Errorf("%w: it belongs to another model or text", layout.ErrCalibration)
		}
	}
	if err != nil || p.whole != nil {
		return p, errors.Join(err, f.Close())
	}
	p.file = f
	return p, nil
}

// decodePartial reads everything before the saved slot.
func decodePartial(r io.Reader) (*partial, error) {
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	start := make([]byte, len(partialMagic)+8)
	if _, err := io.ReadFull(in, start); err != nil {
		return nil, fmt.Errorf("%w: it ends early", layout.ErrCalibration)
	}
	version := binary.LittleEndian.Uint32(start[len(partialMagic):])
	size := binary.LittleEndian.Uint32(start[len(partialMagic)+4:])
	if string(start[:len(partialMagic)]) != partialMagic || version != partialVersion || size > partialHeader {
		return nil, fmt.Errorf("%w: it is not a partial calibration of format version %d", layout.ErrCalibration, partialVersion)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, fmt.Errorf("%w: it ends early", layout.ErrCalibration)
	}
	var p partial
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%w: its header does not parse: %w", layout.ErrCalibration, err)
	}
	if p.Read < 0 || p.Read > calibrationTokens || p.Body < 0 || p.Body > partialBody {
		return nil, fmt.Errorf("%w: %d tokens and a body of %d bytes", layout.ErrCalibration, p.Read, p.Body)
	}
	for _, v := range p.Sense {
		if !(v >= 0) || v-v != 0 {
			return nil, fmt.Errorf("%w: a sensitivity of %g", layout.ErrCalibration, v)
		}
	}
	body, err := io.ReadAll(io.LimitReader(in, int64(p.Body))) // grows with the file, not with the size that its header claims
	if err != nil || len(body) < p.Body {
		return nil, errors.Join(fmt.Errorf("%w: it ends early", layout.ErrCalibration), err)
	}
	want := sum.Sum(nil)
	got := make([]byte, sha256.Size)
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
		return nil, fmt.Errorf("%w: it is damaged, because its checksum does not match", layout.ErrCalibration)
	}
	p.body = body
	if p.Read == 0 {
		p.whole, err = layout.ReadCalibration(bytes.NewReader(body))
	}
	return &p, err
}

// close closes the file of a partial calibration, if it has one.
func (p *partial) close() error {
	if p == nil || p.file == nil {
		return nil
	}
	return p.file.Close()
}

// writePartial writes a new file and renames it over the old one. slot writes the saved slot; nil
// for none. The file need not survive a power failure.
func (m *Model) writePartial(dir string, p *partial, slot func(io.Writer) error) error {
	p.Model, p.Body = m.ID, len(p.body)
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	out := []byte(partialMagic)
	out = binary.LittleEndian.AppendUint32(out, partialVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	out = append(append(out, text...), p.body...)
	sum := sha256.Sum256(out)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := m.partialPath(dir)
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(append(out, sum[:]...))
	if err == nil && slot != nil {
		err = slot(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// dropPartial removes the files of an unfinished calibration.
func (m *Model) dropPartial(dir string) {
	_ = os.Remove(m.partialPath(dir))          // ignore the error: the file may be missing
	_ = os.Remove(m.partialPath(dir) + ".new") // ignore the error: the next run replaces the file
}

// resumeKeys restores the cells and statistics of an earlier run and returns the number of tokens
// that they cover. It returns 0 if they cannot be used.
func (p *partial) resumeKeys(ctx context.Context, t *trial, stats *headStats, tokens []llm.Token) int {
	if p == nil || p.file == nil || p.Read >= len(tokens) || !stats.put(p.body, p.Read) {
		return 0
	}
	at, err := p.file.Seek(0, io.SeekCurrent)
	if err != nil {
		stats.clear()
		return 0
	}
	n, err := t.sched.Restore(ctx, 0, "", io.NewSectionReader(p.file, at, partialSlot))
	if err != nil || n < p.Read {
		stats.clear()
		return 0
	}
	return p.Read
}

// resume returns the progress of an earlier run of the same calibration, or
// nil.
func (c *run) resume() *partial {
	if c.Partial == "" {
		return nil
	}
	known := c.Calibration
	p, err := c.readPartial(c.Partial, c.input)
	if err == nil && p.whole != nil {
		err = p.whole.Check(p.Model, c.layers)
	}
	if err == nil && p.whole != nil && known != nil && !sameCalibration(p.whole, known) {
		err = fmt.Errorf("%w: it belongs to other channels", layout.ErrCalibration)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		c.Log.Info("calibration restarted", "err", err)
		_ = p.close() // the file was only read
		return nil
	}
	return p
}

// sameCalibration compares the channels but not the sensitivities.
func sameCalibration(a, b *layout.Calibration) bool {
	if a.Tokens != b.Tokens || len(a.Layers) != len(b.Layers) {
		return false
	}
	for i := range a.Layers {
		if !reflect.DeepEqual(a.Layers[i].Keys, b.Layers[i].Keys) {
			return false
		}
	}
	return true
}

// keepKeys saves the sums and the cells of the tokens read so far.
func (c *run) keepKeys(ctx context.Context, t *trial, stats *headStats, read int) {
	if t.cells*int64(read)/int64(len(c.Tokens)) > partialSlot {
		return
	}
	c.keep(&partial{Read: read, body: stats.row()}, func(w io.Writer) error {
		_, err := t.sched.Save(ctx, 0, w)
		return err
	})
}

// keep saves progress. If that fails, a later run only takes longer.
func (c *run) keep(p *partial, slot func(io.Writer) error) {
	if c.Partial == "" {
		return
	}
	var err error
	if p.Input = c.input; p.whole != nil {
		var b bytes.Buffer
		err = p.whole.Write(&b)
		p.body = b.Bytes()
	}
	if err == nil {
		err = c.writePartial(c.Partial, p, slot)
	}
	if err != nil && !c.failed {
		c.failed = true
		c.Log.Warn("calibration progress not saved", "err", err)
	}
}
