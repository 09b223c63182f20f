package engine

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"godwit/engine/backend"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/prefix"
	"godwit/engine/tokenizer"
)

// Prefixes stores the KV cells of text prefixes, for all models of a process. See
// package prefix.
type (
	Prefixes      = prefix.Store
	PrefixOptions = prefix.Options
	PrefixUsage   = prefix.Usage
	PrefixChains  = prefix.Chains // stored prefixes of one model, cache and key
	PrefixKey     = prefix.Key    // key of a page and all pages before it

	PrefixFolder string // path of a folder of prefixes
)

// ErrPrefixesBusy reports that another process uses a folder of prefixes.
var ErrPrefixesBusy = prefix.ErrBusy

// OpenPrefixes opens a store. Close the engines that use it before you close the
// store.
func OpenPrefixes(o PrefixOptions) *Prefixes { return prefix.Open(o) }

// List lists the stored prefixes in a folder, with the bytes of their files.
func (f PrefixFolder) List() ([]PrefixChains, int64, error) { return prefix.Inspect(string(f)) }

// Clear deletes the stored prefixes in a folder, unless a process uses it.
func (f PrefixFolder) Clear() error { return prefix.ClearFolder(string(f)) }

// origin identifies everything on which the meaning of cached bytes depends. It is
// part of the keys of stored prefixes.
func (p *Prepared) origin(cache *pages.Cache, dev backend.Info) (prefix.Origin, error) {
	id, err := cache.Identity()
	o := &p.Options
	layers := -1
	if o.GPULayers != nil {
		layers = *o.GPULayers
	}
	if x := p.model.projector; x != nil {
		of := x.file.Identity()
		id = append(id, of[:]...)
	}
	id = fmt.Appendf(id, "\n%q %q layers %d float %v sparse %v repack %v", dev.Backend+" "+dev.Device, dev.Detail, layers, o.FloatAttn, o.SparseV, !o.NoRepack)
	types := cache.Layout().Want
	return prefix.Origin{
		ID:    fmt.Sprintf("%x", sha256.Sum256(id)),
		Model: fmt.Sprintf("%x", p.model.File.Identity()),
		Types: types.K.Name + "/" + types.V.Name,
	}, err
}

// borders returns the positions where messages of a prompt end: the control tokens
// that come more than two tokens after the previous control token.
func borders(tok *tokenizer.Tokenizer, prompt []llm.Token) (list []int) {
	last := 0
	for pos, t := range prompt {
		if t < 0 || int(t) >= tok.VocabSize() || !tok.IsControl(t) {
			continue
		}
		if pos-last > 2 {
			list = append(list, pos)
		}
		last = pos
	}
	return list
}

// messageRoles are the words with which templates name the speaker.
var messageRoles = []string{"system", "developer", "user", "human", "assistant", "model", "tool", "ipython", "observation", "function"}

// roles returns the role of each message between borders, or "" if the message does
// not begin with the name of a role.
func roles(tok *tokenizer.Tokenizer, prompt []llm.Token, borders []int) []string {
	list := make([]string, len(borders)+1)
	for i := range list {
		begin := 0
		if i > 0 {
			begin = borders[i-1]
		}
		list[i] = role(tok, prompt[begin:min(begin+8, len(prompt))])
	}
	return list
}

// role returns the first line of a message, up to a line end or a control token, if this
// is the name of a role. Otherwise the line is text of the message, and role returns "".
func role(tok *tokenizer.Tokenizer, begin []llm.Token) string {
	name := ""
	for _, t := range begin {
		if t < 0 || int(t) >= tok.VocabSize() || tok.IsControl(t) {
			if name != "" {
				break
			}
			continue
		}
		name = strings.TrimLeft(name+strings.ToLower(string(tok.Piece(t))), " \n")
		if line, _, whole := strings.Cut(name, "\n"); whole {
			name = line
			break
		}
	}
	if slices.Contains(messageRoles, name) {
		return name
	}
	return ""
}
