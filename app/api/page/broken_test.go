package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/app/store"
	"godwit/engine"
	"godwit/engine/testmodel"
)

// TestBrokenState replaces a chat's saved state by a valid one with NaN rows. One
// answer fails, and the next one processes the chat again.
func TestBrokenState(t *testing.T) {
	dir := newFolder(t, false)
	if err := os.Symlink(testmodel.Small(t, "qwen35"), filepath.Join(dir, "models", modelName+".gguf")); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir, nil)
	chat := d.newChat(4)
	_, answer := d.say(chat.ID, 0, strings.Repeat("The godwit flies over the sea without a rest. ", 10))
	_, first := d.finish(answer.ID)
	if err := d.stop(); err != nil { // stopping the server saves the state
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "chat-*.kv"))
	if err != nil || len(files) != 1 {
		t.Fatalf("states %v, %v", files, err)
	}
	spoil(t, files[0])

	d = open(t, dir, nil)
	_, answer = d.say(chat.ID, first.ID, "And then?")
	if _, m := d.finish(answer.ID); m.Status != store.Failed {
		t.Errorf("an answer from a broken state is %s", m.Status)
	}
	if _, err := d.o.Store.State(context.Background(), chat.ID); err == nil {
		t.Error("the broken state is kept")
	}
	_, answer = d.say(chat.ID, first.ID, "And then?")
	if _, m := d.finish(answer.ID); m.Status != store.Done {
		t.Errorf("the answer behind it is %s: %s", m.Status, m.Error)
	}
}

// spoil replaces the rows of a saved slot by NaN and sets the right checksum.
func spoil(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := len(engine.SlotMagic)
	n += 4 + 4*int(binary.LittleEndian.Uint32(data[n:])) + 4
	cells, end := data[n:], len(data)-n-sha256.Size
	rows := cells[16+binary.LittleEndian.Uint32(cells[12:]) : end]
	copy(rows, bytes.Repeat([]byte{0xff}, len(rows)))
	sum := sha256.Sum256(cells[:end])
	copy(cells[end:], sum[:])
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
