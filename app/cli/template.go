package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"godwit/engine"
	"godwit/engine/chat"
	"godwit/engine/chat/jinja"
	"godwit/engine/gguf"
	"godwit/engine/llm"
	"godwit/engine/tokenizer"
)

type templateCmd struct {
	Model string `arg:"" optional:"" placeholder:"MODEL" help:"Path of a GGUF file, or a name from 'godwit list'."`
	File  string `name:"template" type:"existingfile" placeholder:"FILE" help:"Jinja template to use instead of the model's own."`
	Chat  string `name:"chat-template" placeholder:"FILE|NAME" help:"Same as --template, but also accepts a built-in name such as chatml."`
	Now   string `placeholder:"TIME" help:"Time that templates see as now, such as 2026-01-02T00:00:00."`
}

// Run renders the conversation from standard input, which is a list of
// messages, or an object whose keys become template variables.
func (c *templateCmd) Run(r *run) error {
	own, err := c.own()
	if err != nil {
		return err
	}
	if c.Model == "" && c.File == "" && c.Chat == "" {
		return usage{errors.New("expected MODEL, --template FILE, or both")}
	}
	vars, err := readVariables(r.in)
	if err != nil {
		return err
	}
	now := time.Now()
	if c.Now != "" {
		if now, err = time.Parse("2006-01-02T15:04:05", c.Now); err != nil {
			return usage{fmt.Errorf("--now: %w", err)}
		}
	}
	var source string
	if c.Model != "" {
		if source, err = c.fromModel(r, vars, c.File != "" || c.Chat != ""); err != nil {
			return err
		}
	}
	if c.File != "" || c.Chat != "" {
		source = own
	}
	t, err := jinja.Parse(source, jinja.Limits{})
	if err != nil {
		return err
	}
	pieces, err := t.Render(r.ctx, vars, jinja.Options{Now: now})
	if err != nil {
		return err
	}
	_, err = io.WriteString(r.out, r.shown(jinja.Text(pieces)))
	return err
}

// own returns the template in the flags, or "" to use the model's template.
func (c *templateCmd) own() (string, error) {
	if c.File != "" {
		b, err := os.ReadFile(c.File)
		return string(b), err
	}
	if c.Chat == "" {
		return "", nil
	}
	source, err := chatTemplate(c.Chat)
	if err != nil {
		return "", usage{err}
	}
	return source, nil
}

// readVariables reads the template's variables.
func readVariables(in io.Reader) (*jinja.Dict, error) {
	b, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, errors.New("standard input is empty; expected messages, such as [{\"role\": \"user\", \"content\": \"Hello\"}]")
	}
	v, err := jinja.DecodeJSON(b, true)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	switch v := v.(type) {
	case *jinja.Dict:
		return v, nil
	case *jinja.List:
		vars := jinja.NewDict()
		vars.Set("messages", v)
		return vars, nil
	}
	return nil, errors.New("standard input: expected a list of messages or an object")
}

// fromModel returns the model's template. The model's special tokens become
// variables unless the input sets them.
func (c *templateCmd) fromModel(r *run, vars *jinja.Dict, other bool) (string, error) {
	path, err := r.find(c.Model)
	if err != nil {
		return "", err
	}
	f, err := engine.OpenFile(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	setSpecial(f, vars)
	if other {
		return "", nil
	}
	source, _ := f.KV.String("tokenizer.chat_template")
	name, _ := f.KV.String("general.name")
	t, err := chat.New(source, chat.Options{Family: engine.ChatFormat(f.Arch()), Name: name})
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(f.Paths()[:1], ""), err)
	}
	for _, n := range t.Notices() {
		fmt.Fprintln(r.err, "godwit:", printable(n))
	}
	return strings.Clone(t.Source()), nil
}

// setSpecial adds the texts of the special tokens to a template's variables.
func setSpecial(f *gguf.File, vars *jinja.Dict) {
	t, err := tokenizer.New(f.KV)
	if err != nil {
		return // the file may have no vocabulary
	}
	for name, id := range map[string]llm.Token{
		"bos_token": t.BOS(), "eos_token": t.EOS(), "unk_token": t.Unknown(), "pad_token": t.Pad(),
	} {
		if _, set := vars.Get(name); !set && id >= 0 {
			vars.Set(name, jinja.Trusted(t.Text(id)))
		}
	}
}
