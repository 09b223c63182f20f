package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"godwit/engine/fetch"
)

// remote is a file to download.
type remote struct {
	path   string // path on the hub, relative to its URL
	local  string // path on disk, relative to the model folder
	size   int64
	sha256 string // "" until the hub's response contains it
}

// partFile is the file that a download writes to.
type partFile interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
	Sync() error
	Close() error
}

func createPart(root *os.Root, name string) (partFile, error) {
	return root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
}

// partNote describes the finished file of a download. It is stored next to the
// .part file.
type partNote struct {
	Ref    string `json:"ref"` // reference to pull to continue the download
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

const (
	partSuffix = ".part"
	noteSuffix = ".part.json"
	spare      = 64 << 20 // bytes of disk space that must remain free
	maxTries   = 8        // maximum number of consecutive tries without tryGain bytes of progress
	tryGain    = 1 << 20
	maxWait    = 60 * time.Second
)

// transfer is a download in progress.
type transfer struct {
	l      *Library
	hub    *client
	remote remote
	root   *os.Root
	part   partFile
	sum    hash.Hash
	n      int64 // number of bytes of part that sum covers
	report func(phase Phase, n int64)
}

// download makes sure that the file is in the model folder. It calls report
// with the number of downloaded bytes. A cancelled download stays as a .part
// file.
func (l *Library) download(ctx context.Context, root *os.Root, ref string, r *remote, report func(Phase, int64)) (err error) {
	if err := root.MkdirAll(filepath.Dir(r.local), 0o755); err != nil {
		return err
	}
	unlock, ok, err := fetch.TryLock(l.lockPath(r.local))
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: %s, by this program or another copy of it", ErrBusy, r.local)
	}
	defer unlock()
	t := &transfer{l: l, hub: l.hub(), remote: *r, root: root, sum: sha256.New(), report: report}
	if err := t.learn(ctx); err != nil {
		return err
	}
	r.sha256 = t.remote.sha256
	if done, err := t.present(ctx); done || err != nil {
		return err
	}
	resumed, err := t.begin(ctx, ref)
	if err != nil {
		return err
	}
	err = t.run(ctx)
	if errors.Is(err, ErrDigest) && resumed {
		// the data from an earlier try may be wrong
		if err = t.restart(); err == nil {
			err = t.run(ctx)
		}
	}
	return t.finish(err)
}

// lockPath returns the path of a download's lock file.
func (l *Library) lockPath(local string) string {
	return filepath.Join(l.dir, ".locks", strings.ReplaceAll(filepath.ToSlash(local), "/", "--"))
}

// learn requests the digest if the hub's file list does not contain it.
func (t *transfer) learn(ctx context.Context) error {
	if t.remote.sha256 != "" {
		return nil
	}
	resp, err := t.hub.get(ctx, t.remote.path, nil, http.Header{"Range": {"bytes=0-0"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return statusError(resp, t.remote.path, t.hub.token != "")
	}
	if err := t.promise(resp); err != nil {
		return err
	}
	if t.remote.sha256 == "" {
		return fmt.Errorf("%w: the hub lists no SHA-256 for %s, so the file cannot be checked", ErrDigest, t.remote.path)
	}
	return nil
}

// present reports whether the finished file already exists with the right digest.
func (t *transfer) present(ctx context.Context) (bool, error) {
	f, err := t.root.Open(t.remote.local)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != t.remote.size || t.remote.sha256 == "" {
		return false, err
	}
	if err := t.read(ctx, f); err != nil {
		return false, err
	}
	same := t.digest() == t.remote.sha256
	t.sum, t.n = sha256.New(), 0
	return same, nil
}

// read adds the content of f to the digest.
func (t *transfer) read(ctx context.Context, f io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := f.Read(buf)
		t.sum.Write(buf[:n])
		t.n += int64(n)
		t.report(PhaseCheck, t.n)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

func (t *transfer) digest() string { return hex.EncodeToString(t.sum.Sum(nil)) }

// begin opens the .part file. It continues an earlier try if that was a
// download of the same file. It checks the free disk space.
func (t *transfer) begin(ctx context.Context, ref string) (resumed bool, err error) {
	name := t.remote.local + partSuffix
	old, err := readNote(t.root, t.remote.local+noteSuffix)
	same := err == nil && old.SHA256 == t.remote.sha256 && old.Size == t.remote.size
	need := t.remote.size
	if info, err := t.root.Stat(name); err == nil && same {
		need -= min(info.Size(), need)
	}
	free, err := t.l.free(t.l.dir)
	if err != nil {
		return false, err
	}
	if free < need+spare {
		return false, fmt.Errorf("%w: %s must be downloaded and %s must stay free, but %s has only %s", ErrSpace, Bytes(need), Bytes(spare), t.l.dir, Bytes(free))
	}
	if t.part, err = t.l.create(t.root, name); err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.part.Close())
		}
	}()
	if same {
		err = t.read(ctx, io.LimitReader(t.part, t.remote.size))
		err = errors.Join(err, t.part.Truncate(t.n))
	}
	if err == nil && !same {
		err = t.restart()
	}
	if err != nil {
		return false, err
	}
	note := partNote{Ref: ref, Path: t.remote.path, Size: t.remote.size, SHA256: t.remote.sha256}
	return t.n > 0, writeJSON(t.root, t.remote.local+noteSuffix, note)
}

func readNote(root *os.Root, name string) (partNote, error) {
	var note partNote
	b, err := root.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &note)
	}
	return note, err
}

// restart discards the downloaded data.
func (t *transfer) restart() error {
	t.sum, t.n = sha256.New(), 0
	_, err := t.part.Seek(0, io.SeekStart)
	return errors.Join(err, t.part.Truncate(0))
}

// run requests the rest of the file until it is complete, and checks it.
func (t *transfer) run(ctx context.Context) error {
	mark, tries := t.n, 0
	for t.n < t.remote.size {
		wait, err := t.try(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if t.n-mark >= tryGain {
			mark, tries = t.n, 0
		}
		if tries++; tries >= maxTries || wait < 0 || wait > maxWait {
			return err
		}
		if wait == 0 {
			wait = t.l.backoff(tries)
		}
		t.l.log.Debug("download interrupted", "err", err, "bytes", t.n, "ms", wait.Milliseconds())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	if got := t.digest(); got != t.remote.sha256 {
		return fmt.Errorf("%w: %s has %s, but the hub announced %s; pull it again", ErrDigest, filepath.Base(t.remote.local), got, t.remote.sha256)
	}
	return nil
}

// backoff returns the pause before another try. The pause doubles up to half a
// minute, and varies by up to a third.
func (l *Library) backoff(tries int) time.Duration {
	d := min(l.pause<<min(tries-1, 10), 30*time.Second)
	return d + rand.N(d/3+1)
}

// never is the pause before another try if trying again is pointless.
const never = time.Duration(-1)

// try makes one request and writes the response. If it fails, it also returns
// how long to wait before the next try. 0 selects the usual time.
func (t *transfer) try(ctx context.Context) (wait time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := http.Header{"Accept-Encoding": {"identity"}}
	if t.n > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", t.n))
	}
	resp, err := t.hub.get(ctx, t.remote.path, nil, header)
	switch {
	case errors.Is(err, ErrNetwork):
		return 0, err
	case err != nil:
		return never, err
	}
	defer resp.Body.Close()
	if err := t.promise(resp); err != nil {
		return never, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		if t.n > 0 { // the server does not support resuming
			if err := t.restart(); err != nil {
				return never, err
			}
		}
	case http.StatusPartialContent:
	default:
		err := statusError(resp, t.remote.path, t.hub.token != "")
		if retriable(resp.StatusCode) {
			return retryAfter(resp, time.Now()), err
		}
		if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return 0, errors.Join(fmt.Errorf("%w: the server has no bytes after the first %d, but the file should have %d", ErrSize, t.n, t.remote.size), t.restart())
		}
		return never, err
	}
	if err := t.checkLength(resp); err != nil {
		return never, err
	}
	return t.copy(resp.Body, cancel)
}

// promise reads the digest from the hub's own response, which redirects to the
// data, and compares it with the digest from the API.
func (t *transfer) promise(resp *http.Response) error {
	first := resp
	for first.Request != nil && first.Request.Response != nil {
		first = first.Request.Response
	}
	etag := strings.ToLower(strings.Trim(strings.TrimPrefix(first.Header.Get("X-Linked-Etag"), "W/"), `"`))
	switch {
	case !hexDigest.MatchString(etag):
	case t.remote.sha256 == "":
		t.remote.sha256 = etag
	case t.remote.sha256 != etag:
		return fmt.Errorf("%w: the hub announced %s and %s for one file; pull it again later", ErrDigest, t.remote.sha256, etag)
	}
	return nil
}

var contentRange = regexp.MustCompile(`^bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)$`)

// checkLength compares the length of the response with the number of missing bytes.
func (t *transfer) checkLength(resp *http.Response) error {
	missing := t.remote.size - t.n
	if resp.StatusCode == http.StatusPartialContent {
		m := contentRange.FindStringSubmatch(resp.Header.Get("Content-Range"))
		if m == nil || m[1] != strconv.FormatInt(t.n, 10) || m[3] != "*" && m[3] != strconv.FormatInt(t.remote.size, 10) {
			return fmt.Errorf("%w: the bytes from %d on, of %d, were requested, but the server sent %q", ErrSize, t.n, t.remote.size, resp.Header.Get("Content-Range"))
		}
		// a server may send less than was requested; the next request gets the
		// rest
		if n := resp.ContentLength; n > missing {
			return fmt.Errorf("%w: %d bytes are missing, but the server sends %d", ErrSize, missing, n)
		}
		return nil
	}
	if n := resp.ContentLength; n >= 0 && n != missing {
		return fmt.Errorf("%w: the hub lists %d bytes, but the server sends %d", ErrSize, missing, n)
	}
	return nil
}

// copy writes the body to the part. If the body stalls or ends early, another
// try may succeed. If it has more bytes than the file, no other try can
// succeed.
func (t *transfer) copy(body io.Reader, cancel func()) (wait time.Duration, err error) {
	stalled := time.AfterFunc(t.l.stall, cancel)
	defer stalled.Stop()
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		stalled.Reset(t.l.stall)
		if int64(n) > t.remote.size-t.n {
			return never, fmt.Errorf("%w: the server sent more than %d bytes", ErrSize, t.remote.size)
		}
		if werr := t.write(buf[:n]); werr != nil {
			return never, werr
		}
		switch {
		case err == io.EOF && t.n == t.remote.size:
			return 0, nil
		case err == io.EOF:
			return 0, fmt.Errorf("%w: after %d of %d bytes", ErrNetwork, t.n, t.remote.size)
		case err != nil:
			return 0, fmt.Errorf("%w: after %d of %d bytes: %w", ErrNetwork, t.n, t.remote.size, err)
		}
	}
}

func (t *transfer) write(b []byte) error {
	n, err := t.part.Write(b)
	t.sum.Write(b[:n])
	t.n += int64(n)
	if err != nil && diskFull(err) {
		return fmt.Errorf("%w: the disk of %s is full after %s of %s; make room and pull again to continue", ErrSpace, t.l.dir, Bytes(t.n), Bytes(t.remote.size))
	}
	t.report(PhaseDownload, t.n)
	return err
}

// finish gives the .part file its final name, or keeps it for another try. It
// removes the file if its content is wrong.
func (t *transfer) finish(err error) error {
	name := t.remote.local
	if err == nil {
		err = t.part.Sync()
	}
	err = errors.Join(err, t.part.Close())
	switch {
	case errors.Is(err, ErrDigest):
		return errors.Join(err, t.root.Remove(name+partSuffix), t.root.Remove(name+noteSuffix))
	case err != nil:
		return err
	}
	return errors.Join(t.root.Rename(name+partSuffix, name), t.root.Remove(name+noteSuffix))
}

// writeJSON replaces a file atomically with a JSON document.
func writeJSON(root *os.Root, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	f, err := root.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, root.Remove(name+".new"))
	}
	return root.Rename(name+".new", name)
}
