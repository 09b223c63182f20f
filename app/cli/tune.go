package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/tune"
	"godwit/engine"
)

type tuneCmd struct {
	modelArg
	Values      []string `arg:"" optional:"" placeholder:"NAME=VALUE" sep:"none" help:"Setting to change; NAME= removes it. Names: context, preset, gpu_layers, chat_template, max_tokens, and sampling parameters such as temperature."`
	Recommended bool     `help:"Take the sampling parameters that the model's maker recommends."`
	Reset       bool     `help:"Remove all settings of the model first."`
	JSON        bool     `name:"json" help:"Machine-readable output."`
}

// tuning is the output of tune.
type tuning struct {
	Path     string        `json:"path"`
	Settings tune.Settings `json:"settings"`
	Advice   *tune.Advice  `json:"recommended,omitempty"`
}

// Run changes and prints the settings of one model. chat, serve and the window
// use these settings, but a flag takes precedence.
func (c *tuneCmd) Run(r *run) error {
	path, err := r.find(c.Model)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	info, err := hub.Describe(path)
	if err != nil {
		return err
	}
	out := tuning{Path: path, Settings: r.tuned().Of(path), Advice: tune.Recommend(&info)}
	if err := c.change(&out); err != nil {
		return err
	}
	if len(c.Values) > 0 || c.Recommended || c.Reset {
		if _, err := chatTemplates(templateOf(&out.Settings)); err != nil {
			return usage{err}
		}
		err := r.tuned().Put(r.ctx, path, out.Settings)
		if errors.Is(err, tune.ErrValue) {
			return usage{err}
		}
		if err != nil {
			return err
		}
	}
	if c.JSON {
		return r.json(out)
	}
	return r.printTuned(&out)
}

// change applies the command line to the settings.
func (c *tuneCmd) change(out *tuning) error {
	if c.Reset {
		out.Settings = tune.Settings{}
	}
	s := &out.Settings
	if c.Recommended {
		if out.Advice == nil {
			return fmt.Errorf("no recommendation is known for %s", c.Model)
		}
		if s.Sampling == nil {
			s.Sampling = map[string]float64{}
		}
		maps.Copy(s.Sampling, out.Advice.Sampling)
		s.Answered = true
	}
	for _, text := range c.Values {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return usage{fmt.Errorf("%q is not NAME=VALUE", text)}
		}
		if err := assign(s, name, value); err != nil {
			return usage{err}
		}
	}
	return nil
}

// assign sets one setting. An empty value removes it.
func assign(s *tune.Settings, name, value string) error {
	whole := func(into *int) (err error) {
		if *into = 0; value != "" {
			*into, err = strconv.Atoi(value)
		}
		return err
	}
	var err error
	switch name {
	case "context":
		err = whole(&s.Context)
	case "max_tokens":
		err = whole(&s.MaxTokens)
	case "gpu_layers":
		if s.GPULayers = nil; value != "" {
			s.GPULayers = new(int)
			err = whole(s.GPULayers)
		}
	case "preset":
		s.Preset = value
	case "chat_template":
		if s.ChatTemplate = value; value != "" {
			if _, builtin := engine.BuiltinTemplate(value); !builtin {
				s.ChatTemplate, err = filepath.Abs(value)
			}
		}
	default:
		if s.Sampling == nil {
			s.Sampling = map[string]float64{}
		}
		if delete(s.Sampling, name); value != "" {
			s.Sampling[name], err = strconv.ParseFloat(value, 64)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %q is not a number", config.ErrValue, name, value)
	}
	return nil
}

// templateOf returns the chat template in the settings as values of
// --chat-template.
func templateOf(s *tune.Settings) []string {
	if s.ChatTemplate == "" {
		return nil
	}
	return []string{s.ChatTemplate}
}

func (r *run) printTuned(x *tuning) error {
	s, t := &x.Settings, newTable("model", r.modelName(x.Path))
	add := func(name string, set bool, value any) {
		if set {
			t.add(name, fmt.Sprint(value))
		}
	}
	add("context", s.Context > 0, s.Context)
	add("preset", s.Preset != "", s.Preset)
	if s.GPULayers != nil {
		add("gpu_layers", true, *s.GPULayers)
	}
	add("chat_template", s.ChatTemplate != "", s.ChatTemplate)
	add("max_tokens", s.MaxTokens > 0, s.MaxTokens)
	for _, name := range slices.Sorted(maps.Keys(s.Sampling)) {
		add(name, true, s.Sampling[name])
	}
	bare := *s
	bare.Answered = false
	add("settings", bare.Empty(), "none of its own")
	if a := x.Advice; a != nil {
		t.add("recommended", listed(a.Sampling)+" ("+cmp.Or(a.Source, "from the file")+")")
	}
	return t.write(r.out)
}

// listed returns sampling parameters in one line.
func listed(values map[string]float64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, fmt.Sprintf("%s=%v", name, values[name]))
	}
	return strings.Join(list, " ")
}
