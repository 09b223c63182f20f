package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"testing"

	"godwit/engine/testmodel"
)

// A derived model shares its base model's files, which are kept until the last user
// is removed.
func TestDerive(t *testing.T) {
	ctx := t.Context()
	lib, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(testmodel.Small(t, "llama-hd64"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if err := lib.WriteBlob(ctx, digest, bytes.NewReader(data[1:]), int64(len(data)-1)); !errors.Is(err, ErrDigest) {
		t.Errorf("a torn upload: %v", err)
	}
	if has, err := lib.HasBlob(digest); has || err != nil {
		t.Errorf("after a torn upload: %v, %v", has, err)
	}
	if _, err := lib.Assemble(ctx, "base", map[string]string{"a.gguf": digest}, Profile{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a model of no upload: %v", err)
	}
	if err := lib.WriteBlob(ctx, digest, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	base, err := lib.Assemble(ctx, "base", map[string]string{"a.gguf": digest}, Profile{})
	if err != nil || base.Error != "" {
		t.Fatal(err, base.Error)
	}
	if has, err := lib.HasBlob(digest); !has || err != nil {
		t.Errorf("the digest of a model: %v, %v", has, err)
	}
	for _, name := range []string{"", "../up", "a b", "/x", "a\nb"} {
		if _, err := lib.Derive(ctx, name, &base, Profile{}); !errors.Is(err, ErrName) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	bob, err := lib.Derive(ctx, "bob", &base, Profile{From: "base", System: "You are Bob."})
	if err != nil {
		t.Fatal(err)
	}
	twin, err := lib.Derive(ctx, "twin", &bob, Profile{Template: "T"})
	if err != nil || twin.Profile.System != "You are Bob." || twin.Profile.Template != "T" || twin.Path != base.Path {
		t.Fatalf("%+v, %v", twin, err)
	}
	if _, err := lib.Derive(ctx, "base", &twin, Profile{System: "x"}); !errors.Is(err, ErrTaken) {
		t.Errorf("over a model with files: %v", err)
	}
	if m, err := lib.Find(base.Path); err != nil || m.Name != "base" {
		t.Errorf("the file is %s, %v", m.Name, err)
	}
	// A model can get a new profile, and its file still counts as uploaded.
	if m, err := lib.Derive(ctx, "base", &base, Profile{From: "base", System: "Be brief."}); err != nil || m.Profile.System != "Be brief." || m.Path != base.Path {
		t.Fatalf("%+v, %v", m, err)
	}
	if m, err := lib.Assemble(ctx, "again", map[string]string{"a.gguf": digest}, Profile{}); err != nil || m.Profile.System != "" || m.Path != base.Path {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, name := range []string{"again", "base", "bob"} {
		if err := lib.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(base.Path); err != nil {
			t.Fatalf("%s took the file of another model: %v", name, err)
		}
	}
	if list, err := lib.List(); err != nil || len(list) != 1 || list[0].Name != "twin" {
		t.Errorf("left: %+v, %v", list, err)
	}
	if err := lib.Remove(ctx, "twin"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(base.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of no model: %v", err)
	}
}
