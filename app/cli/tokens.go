package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"godwit/engine"
	"godwit/engine/llm"
)

// ids is a list of numbers separated by commas, spaces or both, optionally in the
// brackets of a JSON list.
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
			return fmt.Errorf("%q is not a number", f)
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

// rows computes the logits at the positions.
func (c *logitsCmd) rows(r *run, e *engine.Engine) ([]float32, error) {
	if c.Text == "" {
		return e.Logits(r.ctx, c.Tokens.tokens(), c.Positions, c.Step)
	}
	var images [][]byte
	for _, name := range c.Image {
		data, err := readImage(name)
		if err != nil {
			return nil, err
		}
		images = append(images, data)
	}
	return e.LogitsOf(r.ctx, c.Text, images, c.Positions, c.Step)
}

type logitsCmd struct {
	modelArg
	loadFlags
	Tokens    ids      `placeholder:"1,2,3" help:"Token ids, used unchanged."`
	Text      string   `placeholder:"TEXT" help:"Text instead of ids. Special tokens in it are parsed, BOS is added if the model uses it, and each <__media__> stands for an --image. The cache is f32 unless a type is given."`
	Image     []string `placeholder:"FILE" sep:"none" help:"Picture for a marker in --text, in order; needs --mmproj. May be given several times."`
	Positions ids      `placeholder:"0,2" help:"Positions to print logits for, in this order. Default: the last."`
	Step      bool     `help:"Decode the tokens one at a time."`
	Hidden    bool     `help:"Write the hidden states after the last norm instead of logits."`
	Encoder   ids      `name:"encoder-tokens" placeholder:"1,2,3" help:"Token ids for the encoder of an encoder-decoder model; --tokens are then the decoder's, start token included."`
	JSON      bool     `name:"json" help:"Write a list of lists instead of raw little-endian float32."`
}

// Run writes n_vocab float32 for each position, or n_embd with --hidden.
func (c *logitsCmd) Run(r *run) error {
	switch {
	case len(c.Tokens) == 0 && c.Text == "":
		return usage{fmt.Errorf("either --tokens or --text is required")}
	case len(c.Tokens) > 0 && c.Text != "":
		return usage{fmt.Errorf("--tokens and --text cannot be used together")}
	case c.Text == "" && len(c.Image) > 0:
		return usage{fmt.Errorf("--image needs --text with a marker <__media__>")}
	}
	if len(c.Positions) == 0 && c.Text == "" {
		c.Positions = ids{len(c.Tokens) - 1}
	}
	c.Parallel = 1
	if c.Text != "" && c.CacheTypeK == "" && c.CacheTypeV == "" && c.KVPreset == "off" && c.KVAuto == 0 {
		c.CacheTypeK, c.CacheTypeV = "f32", "f32"
	}
	e, err := r.openWith(r.ctx, c.Model, &c.loadFlags, len(c.Tokens), func(o *engine.Options) {
		o.Hidden, o.EncoderTokens = c.Hidden, c.Encoder.tokens()
	})
	if err != nil {
		return err
	}
	defer e.Close()
	rows, err := c.rows(r, e)
	if err != nil {
		return err
	}
	if len(c.Positions) == 0 {
		c.Positions = ids{-1} // default to the last position
	}
	vocab := len(rows) / len(c.Positions)
	if c.JSON {
		var list [][]float32
		for i := range c.Positions {
			list = append(list, rows[i*vocab:(i+1)*vocab])
		}
		return r.json(list)
	}
	return r.floats(rows)
}
