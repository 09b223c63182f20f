package page

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"godwit/app/config"
)

// setting is a setting together with its value.
type setting struct {
	config.Field
	Value  any           `json:"value" ts:"Value"`
	Origin config.Origin `json:"origin"`
	Given  bool          `json:"given,omitempty"`  // whether a secret is set; its value is never sent
	Policy string        `json:"policy,omitempty"` // path of the policy file that locks the setting
}

func (p *Page) listSettings(http.ResponseWriter, *http.Request) (any, error) {
	s, err := p.o.Settings.Settings()
	if err != nil {
		return nil, err
	}
	var list []setting
	for _, f := range config.Fields() {
		if f.Hidden || f.Inert {
			continue
		}
		f.Help = cmp.Or(f.GUI, f.Help)
		value := f.Value(&s)
		f.Choices = slices.DeleteFunc(slices.Clone(f.Choices), func(c string) bool { return c != value && slices.Contains(f.Useless, c) })
		x := setting{Field: f, Value: value, Origin: p.o.Settings.Origin(f.Name), Policy: p.o.Settings.Policy(f.Name)}
		if f.Secret {
			switch secret := x.Value.(type) {
			case []string:
				x.Given = len(secret) > 0
			case string:
				x.Given = secret != ""
			}
			x.Value = nil
		}
		list = append(list, x)
	}
	return map[string]any{"fields": list, "path": p.o.Settings.Path()}, nil
}

// saveSettings writes changes to the file and applies those that take effect
// immediately.
func (p *Page) saveSettings(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Changes map[string]any `json:"changes"`
	}
	if err := read(w, r, smallBody, &q); err != nil {
		return nil, err
	}
	p.saving.Lock()
	defer p.saving.Unlock()
	for name := range q.Changes {
		switch p.o.Settings.Origin(name) {
		case config.FromPolicy:
			return nil, refuse(http.StatusForbidden, "locked", textPolicyWins, name, p.o.Settings.Policy(name))
		case config.FromFlag:
			return nil, bad(textFlagWins, name)
		case config.FromEnvironment:
			return nil, bad(textEnvironmentWins, name)
		}
	}
	old, err := p.o.Settings.Settings()
	if err != nil {
		return nil, err
	}
	s, err := old.With(q.Changes)
	if err != nil {
		return nil, err
	}
	// If models could be loaded with the old settings, the new ones must allow it
	// too.
	if _, err := p.o.Engine(&s.Engine); err != nil {
		if _, was := p.o.Engine(&old.Engine); was == nil {
			return nil, bad("%v", err)
		}
	}
	if err := p.o.Settings.Change(q.Changes, &old, &s); err != nil {
		return nil, err
	}
	if err := p.refreshed(); err != nil { // model folders may have changed, and loaded models may be stale
		return nil, err
	}
	p.events.publish("settings", "settings", sharedOf(&s))
	return p.listSettings(w, r)
}

// apply applies the settings that need no reload.
func (p *Page) apply(s *config.Settings) error {
	if err := p.o.Library.Change(s.Library.Folders, s.Library.HubURL, s.Library.HubToken); err != nil {
		return err
	}
	p.o.Library.Allow(s.Library.Downloads)
	if p.o.Level != nil {
		return p.o.Level(s.App.LogLevel)
	}
	return nil
}

// tail is the number of log bytes in the diagnostics.
const tail = 16 << 10

func (p *Page) diagnostics(w http.ResponseWriter, _ *http.Request) (any, error) {
	var b bytes.Buffer
	if err := p.diagnose(&b); err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the page may have disconnected
	return sent{}, nil
}

// diagnose writes a text for a bug report. It contains no prompts, answers or keys.
func (p *Page) diagnose(b *bytes.Buffer) error {
	s, err := p.o.Settings.Settings()
	if err != nil {
		return err
	}
	m := p.machine()
	fmt.Fprintf(b, "Godwit %s, %s %s/%s\n", p.o.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(b, "device: %s %s, %d MiB, %d MiB free, %d threads\n", m.Device, m.Detail, m.Memory>>20, m.Free>>20, m.Threads)
	b.WriteString("\nsettings that are not the default:\n")
	base := config.Default()
	for _, f := range config.Fields() {
		value := f.Value(&s)
		switch {
		case config.Equal(f.Value(&base), value):
		case f.Secret, f.Kind == "list":
			fmt.Fprintf(b, "  %s (set)\n", f.Name)
		default:
			fmt.Fprintf(b, "  %s = %v\n", f.Name, value)
		}
	}
	b.WriteString("\nmodels:\n")
	for _, x := range p.list() {
		fmt.Fprintf(b, "  %s, %s %s, %d MiB, %s %s %s\n", x.Name, x.Arch, x.Quant, x.Size>>20, x.State, x.Failure, x.Error)
	}
	if p.o.LogFile != "" {
		fmt.Fprintf(b, "\nlog:\n%s", lastLines(p.o.LogFile))
	}
	return nil
}

func lastLines(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, info.Size()-tail)
	data := make([]byte, info.Size()-from)
	n, err := f.ReadAt(data, from)
	if n == 0 && err != nil {
		return err.Error()
	}
	text := string(data[:n])
	if from > 0 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
