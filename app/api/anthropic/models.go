package anthropic

import (
	"slices"
	"time"
)

// Model is a model in Anthropic's form.
type Model struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Name    string `json:"display_name"`
	Created string `json:"created_at"`
	Input   int    `json:"max_input_tokens"`
	Output  int    `json:"max_tokens"`
}

// NewModel describes a model with the given context length.
func NewModel(id, name string, created time.Time, context int) Model {
	if name == "" {
		name = id
	}
	return Model{"model", id, name, Timestamp(created), context, context}
}

// List is a page of a list in Anthropic's form.
type List[T any] struct {
	Data  []T     `json:"data"`
	More  bool    `json:"has_more"`
	First *string `json:"first_id"`
	Last  *string `json:"last_id"`
}

// Page returns a number of items before or after an id.
func Page[T any](all []T, id func(*T) string, limit int, before, after string) List[T] {
	place := func(want string) int { return slices.IndexFunc(all, func(x T) bool { return id(&x) == want }) }
	if before != "" {
		all = all[:max(place(before), 0)]
		all = all[max(len(all)-limit, 0):]
	}
	if after != "" {
		all = all[place(after)+1:]
	}
	out := List[T]{Data: all[:min(limit, len(all))], More: len(all) > limit}
	if n := len(out.Data); n > 0 {
		first, last := id(&out.Data[0]), id(&out.Data[n-1])
		out.First, out.Last = &first, &last
	}
	return out
}
