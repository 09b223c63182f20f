package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// download gets wheels into a new folder below tmp and returns their paths in
// the order of packages ("name==version"). It accepts only wheels, because pip
// runs no code from them.
func download(ctx context.Context, tmp string, packages []string, progress Progress, total int64) ([]string, error) {
	dest := filepath.Join(tmp, "wheels")
	args := append([]string{"--only-binary", ":all:"}, packages...)
	if err := pip(ctx, tmp, dest, args, progress, total); err != nil {
		return nil, err
	}
	wheels := make([]string, len(packages))
	for i, p := range packages {
		name, version, _ := strings.Cut(p, "==")
		found, err := filepath.Glob(filepath.Join(dest, strings.ReplaceAll(name, "-", "_")+"-"+version+"-*.whl"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("pip left %d wheels of %s, want 1", len(found), p)
		}
		wheels[i] = found[0]
	}
	return wheels, nil
}

// pip runs "pip download --no-deps" into dest. tmp is for pip's own temporary
// files, whose growth is the progress.
func pip(ctx context.Context, tmp, dest string, args []string, progress Progress, total int64) error {
	python, err := python(ctx)
	if err != nil {
		return err
	}
	work := filepath.Join(tmp, "pip")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	base := []string{
		"-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-input",
		"--disable-pip-version-check", "--progress-bar", "off", "--quiet", "--dest", dest,
	}
	cmd := exec.CommandContext(ctx, python, append(base, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+work, "TEMP="+work, "TMP="+work)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second // how long to wait for a grandchild that keeps the pipe open
	stop := watch(tmp, progress, total)
	err = cmd.Run()
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("pip download %s: %w: %s", strings.Join(args, " "), err, lastError(out.String()))
	}
	return nil
}

// python finds an interpreter that has pip.
func python(ctx context.Context) (string, error) {
	var tried []error
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = exec.CommandContext(ctx, path, "-m", "pip", "--version").Run()
		}
		if err == nil {
			return path, nil
		}
		tried = append(tried, fmt.Errorf("%s: %w", name, err))
	}
	return "", fmt.Errorf("%w (install python3 and python3-pip): %w", ErrNoPip, errors.Join(tried...))
}

// lastError returns the last line of pip's output that mentions an error.
func lastError(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], "ERROR") {
			return strings.TrimSpace(lines[i])
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// watch reports the bytes below dir a few times a second until stop is called.
func watch(dir string, progress Progress, total int64) (stop func()) {
	if progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				progress(min(size(dir), total), total)
			}
		}
	})
	return func() {
		close(done)
		wait.Wait()
	}
}

// size adds up the sizes of the files below dir. It ignores files that
// disappear in the meantime.
func size(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a folder that pip has just removed
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
