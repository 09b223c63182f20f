package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"godwit/engine"
)

// PrivateHeader asks, in every dialect, that nothing of a request is left when
// its answer ends.
const PrivateHeader = "X-Godwit-Private"

// maxSalt bounds a cache_salt.
const maxSalt = 1024

// reuse is what a request says about reading prompts again. Like the sampling
// parameters it is part of every dialect.
type reuse struct {
	prompt *bool
	store  *bool
	salt   string
}

// reuseFields are its fields, with their type and what they do.
var reuseFields = []struct{ name, kind, help string }{
	{"cache_prompt", "boolean", "false: compute the whole prompt again."},
	{"cache_store", "boolean", "false: nothing of the request is kept when its answer ends."},
	{"cache_salt", "string", "Only requests with the same text here share what was read."},
}

// decode picks the fields out of an object.
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
			return Bad(join(path, "cache_salt"), "%d bytes, at most %d", len(u.salt), maxSalt)
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

// Whose is whose requests a request may share with, and whether it leaves
// anything.
type Whose struct {
	Key     string // empty: everybody's
	Private bool
}

// WhoseIs reads the header of a request. Those with different API keys share
// nothing, unless they are to.
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

// Salt is the salt of a request's own one.
func (w Whose) Salt(own string) string {
	if w.Key == "" && own == "" {
		return ""
	}
	return w.Key + "/" + own
}

// Ended says where the reuse of a prompt ended, and why, without any text. It is a
// part of every dialect's usage.
type Ended struct {
	At  int    `json:"cache_ended_at,omitempty"`
	Why string `json:"cache_ended_why,omitempty"`
}

// EndOf is the end of an answer's reuse.
func EndOf(r *engine.Result) Ended { return Ended{r.Ended, r.Why} }
