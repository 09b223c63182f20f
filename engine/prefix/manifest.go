package prefix

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
)

// manifestMagic begins the manifest.
const manifestMagic = "gwpm\x01\r\n\x00"

// manifest lists the chunks of a folder, and the time when each record was last
// used.
type manifest struct {
	chunks []uint64
	used   map[[8]byte]int64 // keyed by the first bytes of the record's key
}

// readManifest reads the manifest. It returns an empty one if the file is
// missing or damaged.
func readManifest(dir string, secret []byte) (m manifest) {
	b, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil || len(b) < len(manifestMagic)+4+32 || string(b[:len(manifestMagic)]) != manifestMagic {
		return m
	}
	body := b[:len(b)-32]
	if sum := keyed(secret, manifestSum, body); !bytes.Equal(sum[:], b[len(body):]) {
		return m
	}
	body = body[len(manifestMagic):]
	n := int(binary.LittleEndian.Uint32(body))
	body = body[4:]
	if n > len(body)/8 || (len(body)-8*n)%16 != 0 {
		return m
	}
	for i := range n {
		m.chunks = append(m.chunks, binary.LittleEndian.Uint64(body[8*i:]))
	}
	m.used = map[[8]byte]int64{}
	for body = body[8*n:]; len(body) > 0; body = body[16:] {
		m.used[[8]byte(body)] = int64(binary.LittleEndian.Uint64(body[8:]))
	}
	return m
}

// writeManifest writes the manifest with all chunks.
func (s *Store) writeManifest() error {
	d := s.disk
	b := []byte(manifestMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(d.chunks)))
	for _, c := range d.chunks {
		b = binary.LittleEndian.AppendUint64(b, c.number)
	}
	s.mu.Lock()
	for e := s.held.order.Front(); e != nil; e = e.Next() {
		n := e.Value.(*node)
		b = append(b, n.key[:8]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(n.used))
	}
	s.mu.Unlock()
	sum := keyed(s.secret[:], manifestSum, b)
	return writeWhole(filepath.Join(d.dir, manifestFile), append(b, sum[:]...))
}
