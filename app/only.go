package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"godwit/app/api/page"
	"godwit/engine/fetch"
)

// focusTime is how long a second start waits for the first window, which may
// still be opening.
const focusTime = 15 * time.Second

// only makes sure that there is only one window. The first start takes a lock
// and publishes its address, and a later start brings the first window to the
// front.
type only struct {
	lock, where string // files
	unlock      func()
}

// acquire takes the lock. It returns false if another window holds it.
func (o *only) acquire() (bool, error) {
	if err := os.MkdirAll(filepath.Dir(o.lock), 0o700); err != nil {
		return false, err
	}
	unlock, ok, err := fetch.TryLock(o.lock)
	if ok {
		o.unlock = unlock
	}
	return ok, err
}

// tell writes the address of this window. The file also contains the token, so
// only this user can read it.
func (o *only) tell(c page.Config) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	part := o.where + ".part"
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return err
	}
	return os.Rename(part, o.where)
}

// release releases the lock.
func (o *only) release() error {
	err := os.Remove(o.where)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	o.unlock()
	return err
}

// focus tells the window that holds the lock to come to the front.
func (o *only) focus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, focusTime)
	defer cancel()
	for {
		err := o.requestFocus(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another Godwit is running and does not answer: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (o *only) requestFocus(ctx context.Context) error {
	data, err := os.ReadFile(o.where)
	if err != nil {
		return err
	}
	var c page.Config
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/app/native/focus", bytes.NewReader(nil))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("it answered with status %s", resp.Status)
	}
	return nil
}
