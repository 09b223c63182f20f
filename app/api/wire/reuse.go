package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"godwit/engine"
)

// PrivateHeader requests, in every dialect, that no text of the request remains
// in the cache when the answer ends.
const PrivateHeader = "X-Godwit-Private"

// maxSalt limits the length of a cache_salt.
const maxSalt = 1024

// reuse holds a request's fields about the reuse of prompts. Like the sampling
// parameters, they are part of every dialect.
type reuse struct {
	prompt *bool
	store  *bool
	salt   string
}

// reuseFields lists the fields of reuse with their types and descriptions.
var reuseFields = []struct{ name, kind, help string }{
	{"cache_prompt", "boolean", "If false, compute the whole prompt again."},
	{"cache_store", "boolean", "If false, keep nothing of the request after its answer."},
	{"cache_salt", "string", "Only requests with the same value share stored prompts."},
}

// decode reads the fields from an object.
func (u *reuse) decode(object map[string]json.RawMessage, path string) (err error) {
	for _, f := range []struct {
		name string
		into **bool
	}{{"cache_prompt", &u.prompt}, {"cache_store", &u.store}} {
		raw := object[f.name]
		if IsNull(raw) {
			continue
		}
		if Kind(raw) != "a boolean" {
			return Bad(join(path, f.name), "want a boolean, got %s", Kind(raw))
		}
		on := string(raw) == "true"
		*f.into = &on
	}
	if raw := object["cache_salt"]; !IsNull(raw) {
		if u.salt, err = Text(raw, join(path, "cache_salt")); err != nil {
			return err
		}
		if len(u.salt) > maxSalt {
			return Bad(join(path, "cache_salt"), "%d bytes is too long; the limit is %d", len(u.salt), maxSalt)
		}
	}
	return nil
}

// apply changes a request.
func (u *reuse) apply(r *engine.Request) {
	r.Fresh = u.prompt != nil && !*u.prompt
	r.Private = u.store != nil && !*u.store
	r.Salt = u.salt
}

// Whose decides which other requests may share the cached prompts of a request,
// and whether any of its text may remain in the cache.
type Whose struct {
	Key     string // empty if all requests share cached prompts
	Private bool
}

// WhoseIs reads the header of a request. Requests with different API keys share
// no cached prompts, unless the settings allow it.
func WhoseIs(r *http.Request, key string, shared bool) Whose {
	w := Whose{Private: r.Header.Get(PrivateHeader) != "" && r.Header.Get(PrivateHeader) != "0"}
	if key != "" && !shared {
		sum := sha256.Sum256([]byte(key))
		w.Key = hex.EncodeToString(sum[:])
	}
	return w
}

// Apply changes a request.
func (w Whose) Apply(r *engine.Request) {
	r.Private = r.Private || w.Private
	r.Salt = w.Salt(r.Salt)
}

// Salt combines the key with the request's own salt.
func (w Whose) Salt(own string) string {
	if w.Key == "" && own == "" {
		return ""
	}
	return w.Key + "/" + own
}

// Ended reports where and why the reuse of a prompt ended, without any text. It
// is a part of every dialect's usage.
type Ended struct {
	Shifted int    `json:"cache_shifted,omitempty"` // reused tokens that were read at another position
	At      int    `json:"cache_ended_at,omitempty"`
	Why     string `json:"cache_ended_why,omitempty"`
}

// EndOf returns where and why the reuse ended for an answer.
func EndOf(r *engine.Result) Ended { return Ended{r.Spliced, r.Ended, r.Why} }
