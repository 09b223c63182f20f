package cli

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"godwit/engine/llm"
)

// ids is a list of numbers, separated by commas, spaces or both; brackets of
// a JSON list are allowed.
type ids []int

func (l *ids) UnmarshalText(text []byte) error {
	*l = nil
	if parts := strings.Split(strings.Trim(string(text), "[] \t\n"), ","); len(parts) > 1 {
		for _, part := range parts {
			if strings.TrimSpace(part) == "" {
				return fmt.Errorf("%q: a number is missing at a comma", text)
			}
		}
	}
	for _, f := range strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(", \t\n[]", r) }) {
		n, err := strconv.ParseInt(f, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is no number", f)
		}
		*l = append(*l, int(n))
	}
	return nil
}

func (l ids) tokens() []llm.Token {
	out := make([]llm.Token, len(l))
	for i, n := range l {
		out[i] = llm.Token(n)
	}
	return out
}

// json writes a value as one line of JSON, without escaping < and >.
func (r *run) json(v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := r.out.WriteString(r.shown(b.String()))
	return err
}

type logitsCmd struct {
	modelArg
	loadFlags
	Tokens    ids  `required:"" placeholder:"1,2,3" help:"Token ids, fed as they are."`
	Positions ids  `placeholder:"0,2" help:"Positions whose logits are wanted, in the order given. Default: the last."`
	Step      bool `help:"Feed the tokens through decode, one at a time."`
	JSON      bool `name:"json" help:"Write a list of lists instead of raw little-endian float32."`
}

// Run writes n_vocab float32 for each position.
func (c *logitsCmd) Run(r *run) error {
	if len(c.Tokens) == 0 {
		return usage{fmt.Errorf("--tokens is empty")}
	}
	if len(c.Positions) == 0 {
		c.Positions = ids{len(c.Tokens) - 1}
	}
	c.Parallel = 1
	e, err := r.openFor(r.ctx, c.Model, &c.loadFlags, len(c.Tokens))
	if err != nil {
		return err
	}
	defer e.Close()
	rows, err := e.Logits(r.ctx, c.Tokens.tokens(), c.Positions, c.Step)
	if err != nil {
		return err
	}
	vocab := len(rows) / len(c.Positions)
	if c.JSON {
		var list [][]float32
		for i := range c.Positions {
			list = append(list, rows[i*vocab:(i+1)*vocab])
		}
		return r.json(list)
	}
	var b [4]byte
	for _, v := range rows {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
		if _, err := r.out.Write(b[:]); err != nil {
			return err
		}
	}
	return nil
}
