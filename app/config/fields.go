package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Field describes one setting for the settings page, the help and tests.
type Field struct {
	Name    string   `json:"name"`                                                                              // section.key, as in the file
	Flag    string   `json:"flag,omitempty"`                                                                    // long flag without dashes; empty without one
	Short   string   `json:"short,omitempty"`                                                                   // one-letter flag
	Dash    string   `json:"dash,omitempty"`                                                                    // llama.cpp's single-dash spelling of more than one letter
	Env     []string `json:"env"`                                                                               // environment variables; the first that is set is used
	Kind    string   `json:"kind" ts:"'bool' | 'int' | 'float' | 'text' | 'list' | 'size' | 'time' | 'innerq'"` // bool, int, float, text, list, size, time, innerq
	Auto    bool     `json:"auto,omitempty"`                                                                    // whether the setting may be unset, so that the engine decides
	Default string   `json:"default"`                                                                           // default as text; empty if it is unset
	Min     *float64 `json:"min,omitempty"`                                                                     // minimum of a number, in seconds for times
	Max     *float64 `json:"max,omitempty"`                                                                     // maximum of a number, in seconds for times
	Off     *float64 `json:"off,omitempty"`                                                                     // one more number that is allowed, outside the bounds
	Unit    string   `json:"unit,omitempty"`                                                                    // unit of a number
	Choices []string `json:"choices,omitempty"`                                                                 // all allowed values
	From    string   `json:"from,omitempty"`                                                                    // registry that lists the choices: kv for cache types
	Secret  bool     `json:"secret,omitempty"`                                                                  // never shown
	Hidden  bool     `json:"hidden,omitempty"`                                                                  // whether the page hides the setting
	Applies string   `json:"applies" ts:"'load' | 'start' | 'now'"`                                             // when a change takes effect: load, start or now
	Group   string   `json:"group"`
	Help    string   `json:"help"`
	GUI     string   `json:"-"` // help text of the page and the window
	Inert   bool     `json:"-"` // whether the setting is accepted but has no effect
	Useless []string `json:"-"` // choices that are accepted but have no effect

	offer string // name of a list of choices; see Offer
	form  string // name of the form of a text, or of each text in a list; see forms
	index []int  // index of the field in Settings
}

// fields is the table of all settings, which is read from the tags at the
// start.
var fields = readFields()

// Offer sets the choices of the settings whose enum names a list. The package
// that defines the list calls Offer in init.
func Offer(list string, choices []string) {
	for i := range fields {
		if fields[i].offer == list {
			fields[i].Choices = choices
		}
	}
}

// Vars returns the lists set by Offer, by name, in the form of an enum tag.
func Vars() map[string]string {
	vars := map[string]string{}
	for i := range fields {
		if f := &fields[i]; f.offer != "" {
			vars[f.offer] = strings.Join(f.Choices, ",")
		}
	}
	return vars
}

// Fields lists all settings in the order of the sections.
func Fields() []Field { return append([]Field(nil), fields...) }

// Find returns the setting with a name or a flag.
func Find(nameOrFlag string) (Field, bool) {
	for _, f := range fields {
		if f.Name == nameOrFlag || f.Flag != "" && f.Flag == nameOrFlag {
			return f, true
		}
	}
	return Field{}, false
}

func readFields() []Field {
	var all []Field
	settings := reflect.TypeFor[Settings]()
	for i := range settings.NumField() {
		section := settings.Field(i)
		for j := range section.Type.NumField() {
			all = append(all, readField(section.Tag.Get("toml"), section.Type.Field(j), []int{i, j}))
		}
	}
	return all
}

func readField(section string, sf reflect.StructField, index []int) Field {
	tag := sf.Tag
	key := tag.Get("toml")
	f := Field{
		Name: section + "." + key, Flag: tag.Get("name"), Short: tag.Get("short"), Dash: tag.Get("dash"),
		Env:     []string{"GODWIT_" + strings.ToUpper(key)},
		Default: tag.Get("default"), Unit: tag.Get("unit"), From: tag.Get("from"),
		Applies: tag.Get("applies"), Group: tag.Get("group"), Help: tag.Get("help"), GUI: tag.Get("gui"),
		Kind: kindOf(sf.Type), Auto: sf.Type.Kind() == reflect.Pointer, index: index,
	}
	if more := tag.Get("vars"); more != "" {
		f.Env = append(f.Env, strings.Split(more, ",")...)
	}
	switch enum := tag.Get("enum"); {
	case strings.HasPrefix(enum, "${"):
		f.offer = strings.Trim(enum, "${}")
	case enum != "":
		f.Choices = strings.Split(enum, ",")
	}
	switch accepted := tag.Get("accepted"); accepted {
	case "":
	case "all":
		f.Inert = true
	default:
		f.Useless = strings.Split(accepted, ",")
	}
	_, f.Secret = tag.Lookup("secret")
	_, f.Hidden = tag.Lookup("hidden")
	f.Min, f.Max, f.Off = bound(f.Name, tag.Get("min")), bound(f.Name, tag.Get("max")), bound(f.Name, tag.Get("off"))
	f.form = tag.Get("form")
	return f
}

func bound(name, text string) *float64 {
	if text == "" {
		return nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("config: %s has the bound %q", name, text))
	}
	return &x
}

func kindOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[Duration]():
		return "time"
	case reflect.TypeFor[InnerQ]():
		return "innerq"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int64:
		return "int"
	case reflect.Float64:
		return "float"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "list"
	}
	panic("config: no kind for " + t.String())
}

// Default returns the settings with every default.
func Default() Settings {
	var s Settings
	for i := range fields {
		f := &fields[i]
		if f.Default == "" {
			continue
		}
		if err := f.set(&s, f.Default); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", f.Name, err))
		}
	}
	return s
}

// PlainCache returns e with the KV cache settings reset to their defaults.
func (e Engine) PlainCache() Engine {
	plain := Default().Engine
	from, to := reflect.ValueOf(&plain).Elem(), reflect.ValueOf(&e).Elem()
	for i := range to.NumField() {
		if to.Type().Field(i).Tag.Get("group") == cacheGroup {
			to.Field(i).Set(from.Field(i))
		}
	}
	return e
}

// cacheGroup is the name of the group of KV cache settings.
const cacheGroup = "KV cache"

// Value returns the setting's value in s. It is nil if the setting is unset,
// and otherwise a bool, int64, float64, string or []string. Sizes, times and
// innerq are text. Save accepts this form, and JSON and TOML can store it.
func (f *Field) Value(s *Settings) any {
	return plain(reflect.ValueOf(s).Elem().FieldByIndex(f.index))
}

// plain returns a value of a setting's type in the form that Value describes.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	if text, ok := v.Interface().(fmt.Stringer); ok {
		return text.String()
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return v.Int()
	case reflect.Slice:
		if list, ok := v.Interface().([]string); ok {
			return append([]string{}, list...)
		}
	}
	return v.Interface()
}

// Validate reports settings that are out of bounds.
func (e *Engine) Validate() error { return validate("engine", e) }

// Validate reports settings that are out of bounds.
func (s *Sampling) Validate() error { return validate("sampling", s) }

// Validate reports settings that are out of bounds.
func (s *Server) Validate() error { return validate("server", s) }

// Validate reports settings that are out of bounds.
func (l *Library) Validate() error { return validate("library", l) }

// Validate reports settings that are out of bounds.
func (a *App) Validate() error { return validate("app", a) }

// Check checks a flag that a command defines itself against the bounds of the
// setting with the same flag. x is a float64 for numbers, or a string.
func Check(flag string, x any) error {
	f, ok := Find(flag)
	if !ok {
		panic("config: no flag --" + flag)
	}
	if err := f.check(reflect.ValueOf(x)); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// validate reports the first field of a section that is out of bounds, which
// can happen if a value was not set with set.
func validate(section string, of any) error {
	v := reflect.ValueOf(of).Elem()
	for i := range fields {
		f := &fields[i]
		if !strings.HasPrefix(f.Name, section+".") {
			continue
		}
		if err := f.check(v.Field(f.index[1])); err != nil {
			if f.Flag != "" {
				return fmt.Errorf("--%s: %w", f.Flag, err)
			}
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// check checks a value against the bounds and choices of its field.
func (f *Field) check(v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	var x float64
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		x = float64(v.Int())
		if d, ok := v.Interface().(Duration); ok && d > 0 {
			x = time.Duration(d).Seconds()
		}
	case reflect.Float64:
		x = v.Float()
	case reflect.String:
		if err := f.checkChoice(v.String()); err != nil {
			return err
		}
		return f.checkForm(v.String())
	case reflect.Slice:
		for i := range v.Len() {
			if err := f.checkForm(v.Index(i).String()); err != nil {
				return err
			}
		}
		return nil
	default:
		return nil
	}
	if f.Off != nil && x == *f.Off {
		return nil
	}
	if f.Min != nil && !(x >= *f.Min) || f.Max != nil && !(x <= *f.Max) {
		return fmt.Errorf("%w: %v; want %s", ErrValue, v.Interface(), f.bounds())
	}
	return nil
}

func (f *Field) checkChoice(text string) error {
	if len(f.Choices) == 0 {
		return nil
	}
	for _, c := range f.Choices {
		if text == c {
			return nil
		}
	}
	return fmt.Errorf("%w: %q is not one of %s", ErrValue, text, strings.Join(f.Choices, ", "))
}

func (f *Field) bounds() string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	switch {
	case f.Off != nil:
		return fmt.Sprintf("%s, or %s to %s", number(*f.Off), number(*f.Min), number(*f.Max))
	case f.Max == nil:
		return number(*f.Min) + " or more"
	case f.Min == nil:
		return number(*f.Max) + " or less"
	}
	return number(*f.Min) + " to " + number(*f.Max)
}
