package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrValue is the class of errors about invalid values of a setting.
var ErrValue = errors.New("bad value")

// Size is a number of bytes. As text it may have a unit, such as 512MiB, 4GiB or
// 1.5GB. As in other tools, K, M, G and T are binary units.
type Size int64

var units = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"tib", 1 << 40},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"tb", 1e12},
	{"k", 1 << 10},
	{"m", 1 << 20},
	{"g", 1 << 30},
	{"t", 1 << 40},
	{"b", 1},
}

// UnmarshalText reads a number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	number, factor := strings.ToLower(strings.TrimSpace(string(text))), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if x *= factor; err != nil || !(x >= 0 && x < math.MaxInt64) {
		return fmt.Errorf("%w: %q is not a size such as 4GiB", ErrValue, text)
	}
	*s = Size(x)
	return nil
}

// MarshalText writes the size with the largest binary unit that divides it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Size) String() string {
	for _, u := range []struct {
		suffix string
		shift  int
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if s != 0 && s%(1<<u.shift) == 0 {
			return strconv.FormatInt(int64(s>>u.shift), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Duration is a time span. As text, it has Go's form (90s, 5m, 1h30m) or is a
// number of seconds. -1 in any unit means forever.
type Duration time.Duration

// Forever is the duration that never ends.
const Forever Duration = -1

// UnmarshalText reads either form.
func (d *Duration) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	span, err := time.ParseDuration(s)
	if err != nil {
		seconds, numErr := strconv.ParseFloat(s, 64)
		if numErr != nil || !(math.Abs(seconds) < math.MaxInt64/1e9) {
			return fmt.Errorf("%w: %q is not a time such as 5m, or a number of seconds", ErrValue, text)
		}
		span = time.Duration(seconds * float64(time.Second))
	}
	if span < 0 && strings.TrimRight(s, "hmsnuµ") != "-1" {
		return fmt.Errorf("%w: %q is neither a time nor -1, which means for ever", ErrValue, text)
	}
	*d = Duration(max(span, time.Duration(Forever)))
	return nil
}

// MarshalText writes Go's form without zero parts, or -1 for Forever.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string {
	if d < 0 {
		return "-1"
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// maxGroups is larger than the number of groups in any text that is used for
// measuring.
const maxGroups = 1 << 24

// InnerQ configures the equalisation of key channels. It is measured on Groups
// groups of 128 values. Strength is in (0, 1]. The zero value switches
// equalisation off.
type InnerQ struct {
	Groups   int
	Strength float64
}

// UnmarshalText reads N or N,STRENGTH. The default strength is 0.5.
func (q *InnerQ) UnmarshalText(text []byte) error {
	count, strength, both := strings.Cut(strings.TrimSpace(string(text)), ",")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil || n < 0 || n > maxGroups {
		return fmt.Errorf("%w: %q; want N or N,STRENGTH, where N is a number of groups from 0 to %d", ErrValue, text, maxGroups)
	}
	*q = InnerQ{Groups: n}
	if n == 0 {
		return nil
	}
	q.Strength = 0.5
	if both {
		if q.Strength, err = strconv.ParseFloat(strings.TrimSpace(strength), 64); err != nil || !(q.Strength > 0 && q.Strength <= 1) {
			*q = InnerQ{}
			return fmt.Errorf("%w: strength %q; want a number above 0 and at most 1", ErrValue, strength)
		}
	}
	return nil
}

// MarshalText writes the form that UnmarshalText reads.
func (q InnerQ) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

func (q InnerQ) String() string {
	if q.Groups == 0 {
		return "0"
	}
	return fmt.Sprintf("%d,%g", q.Groups, q.Strength)
}
