package config

import "fmt"

// With returns the settings with changes applied. changes holds values by
// section.key in the form that Save accepts. An unknown name or an invalid
// value gives ErrValue.
func (s Settings) With(changes map[string]any) (Settings, error) {
	for name, value := range changes {
		field, ok := Find(name)
		if !ok || field.Name != name {
			return s, fmt.Errorf("%w: %s: unknown setting%s", ErrValue, name, suggest(name, names()))
		}
		if err := field.set(&s, value); err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}
