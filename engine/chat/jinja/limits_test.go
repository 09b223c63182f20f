package jinja

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"godwit/engine/internal/spent"
)

// TestLimits renders templates that exceed a limit. Each must end soon with
// ErrLimit.
func TestLimits(t *testing.T) {
	nested := strings.Repeat("{% set l = [l, l] %}", 60)
	for _, source := range []string{
		"{{ 'a' * 10**9 }}", "{{ [0] * 10**9 }}", "{{ (1,) * 10**9 * 10 }}", "{{ 10**9 * 'ab' }}", "{{ 'a' * 10**30 }}",
		"{{ 2 ** (10**9) }}", "{{ 10 ** (10 ** 10) }}", "{{ 2 ** (10**30) }}",
		"{% set ns = namespace(n=3) %}{% for i in range(100) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
		"{{ range(10**6) }}", "{{ range(10**30) }}", "{{ range(0, 10**18, 3) }}",
		"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"{% set l = [1] %}{% for x in l %}{% do l.append(x) %}{% endfor %}",
		"{% set s = namespace(v='ab') %}{% for i in range(99) %}{% set s.v = s.v + s.v %}{% endfor %}",
		"{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
		"{{ 'a'|center(10**12) }}", "{{ 'a'.ljust(10**12) }}", "{{ 'a'.zfill(10**12) }}", "{{ '\t'.expandtabs(10**12) }}",
		"{{ '%*d' % (10**9 + 1, 1) }}", "{{ '%999999999d' % 1 }}", "{{ '{:999999999}'.format(1) }}", "{{ '{:.999999}'.format(1.5) }}",
		"{{ '{:0999999999,}'.format(1) }}", "{{ '%.999999f' % 1 }}", "{{ '%.999999d' % 1 }}", "{{ 'a\nb'|indent(10**12) }}",
		"{{ [[1]]|tojson(indent=10**12) }}", "{{ ['a']|batch(10**12, 'x')|list }}",
		"{% set l = [] %}" + nested + "{{ l }}", "{% set l = [] %}" + nested + "{{ l|tojson }}",
		"{% set l = 1 %}" + nested + "{% set k = 1 %}" + strings.ReplaceAll(nested, "l", "k") + "{{ k == l }}",
		"{% set l = 1 %}" + strings.ReplaceAll(strings.ReplaceAll(nested, "[", "("), "]", ")") + "{{ {l: 1} }}",
		"{% set l = [] %}{% do l.append(l) %}{{ l }}", "{% set l = [] %}{% do l.append(l) %}{{ l|tojson }}",
		"{% set l = [] %}{% do l.append(l) %}{% set k = [] %}{% do k.append(k) %}{{ l == k }}",
		"{{ " + strings.Repeat("1+", 5000) + "1 }}", "{{ x" + strings.Repeat(".a", 5000) + " }}",
		"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s.replace('', 'b')|length }}{% endfor %}",
		"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s|list|length }}{% endfor %}",
		"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}",
		"{% set s = 'é' * 1000000 %}{% for i in range(100000) %}{% if s[500000] %}{% endif %}{% endfor %}",
		"{% set l = range(100000)|list %}{% for i in l %}{% if -1 in l %}{% endif %}{% endfor %}",
		"{% set l = range(100000)|list %}{% for i in l %}{% set x = l|sort|list %}{% endfor %}",
		"{% set d = dict(a=1) %}{% for i in range(100000) %}{% set x = [d.items()|list] * 100000 %}{% endfor %}",
	} {
		name := source[:min(len(source), 60)]
		t.Run(name, func(t *testing.T) {
			var err error
			took := spent.Time(t, func() {
				var tmpl *Template
				if tmpl, err = Parse(source, Limits{Steps: 2_000_000, Memory: 64 << 20}); err == nil {
					vars := NewDict()
					vars.Set("x", NewDict())
					_, err = tmpl.Render(context.Background(), vars, Options{})
				}
			})
			if !errors.Is(err, ErrLimit) && !(strings.Contains(source, ".a.a") && errors.Is(err, ErrUndefined)) {
				t.Errorf("error %v, want ErrLimit", err)
			}
			if took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestMemory bounds the heap that a rendering allocates, including buffers that it
// outgrows and leaves to the garbage collector.
func TestMemory(t *testing.T) {
	const limit = 32 << 20
	for _, source := range []string{
		"{{ ('a' * 100000).replace('a', 'b' * 1000) }}", "{{ ('a ' * 100000).split()|join('x' * 1000) }}",
		"{% set s = namespace(v='ab') %}{% for i in range(99) %}{% set s.v = s.v + s.v %}{% endfor %}",
		"{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
	} {
		tmpl, err := Parse(source, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = tmpl.Render(t.Context(), NewDict(), Options{Limits: &Limits{Memory: limit}})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%s: error %v, want ErrLimit", source, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 2*limit {
			t.Errorf("%s: %d bytes were taken within a limit of %d", source, n, limit)
		}
	}
}

func TestNestingIsASyntaxError(t *testing.T) {
	for _, source := range []string{
		"{{ " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000) + " }}",
		"{{ " + strings.Repeat("[", 5000), "{{ " + strings.Repeat("not ", 5000) + "1 }}", "{{ " + strings.Repeat("- ", 5000) + "1 }}",
		strings.Repeat("{% if 1 %}", 5000), strings.Repeat("{% for a in b %}", 5000), "{% set " + strings.Repeat("(", 5000),
		"{{ " + strings.Repeat("1 if 1 else ", 5000) + "1 }}", "{{ " + strings.Repeat("{1:", 5000),
		"{{ a" + strings.Repeat("[a", 5000), "{{ a" + strings.Repeat("(a", 5000), "{{ " + strings.Repeat("9", 5000) + " }}",
	} {
		if _, err := Parse(source, Limits{}); !errors.Is(err, ErrSyntax) {
			t.Errorf("%.40s…: error %v, want ErrSyntax", source, err)
		}
	}
	if _, err := Parse(strings.Repeat("x", maxSource+1), Limits{}); !errors.Is(err, ErrLimit) {
		t.Errorf("a source that is too long: error %v, want ErrLimit", err)
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct {
		source, want string
	}{
		{"a\nb\n{{ nope.x }}", "undefined value: line 3: 'nope' is undefined"},
		{"{% if true %}\n\n{{ 1 + 'a' }}{% endif %}", "wrong type: line 3: unsupported operand type(s) for +: 'int' and 'str'"},
		{"\n{{ {}.x.y }}", "undefined value: line 2: 'dict object' has no attribute 'x'"},
		{"\n{% endif %}", "template syntax: line 2: unknown tag 'endif'"},
		{"{{ 'a' | nope }}", "template fault: line 1: No filter named 'nope' found."},
		{"{{ [].clear() }}", "not allowed in a template: line 1: access to attribute 'clear' of 'list' object is unsafe"},
		{"{{ raise_exception('go away') }}", "go away"},
		{"{% include 'x' %}", "template syntax: line 1: 'include' is not supported, because a chat template cannot use other templates"},
	} {
		tmpl, err := Parse(c.source, Limits{})
		if err == nil {
			_, err = tmpl.Render(context.Background(), NewDict(), Options{})
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: error %v, want %s", c.source, err, c.want)
		}
	}
}

// TestNoHostAccess tries the known ways out of a sandbox for Python templates.
func TestNoHostAccess(t *testing.T) {
	for _, source := range []string{
		"{{ ''.__class__.__mro__ }}", "{{ [].__class__() }}", "{{ {}['__class__']['__base__'] }}", "{{ x.__init__.__globals__ }}",
		"{{ '{0.__class__.__mro__}'.format(1) }}", "{{ raise_exception.__globals__['os'] }}", "{{ self.__init__() }}",
		"{{ range.__self__.x() }}", "{{ cycler.__init__.__globals__.os }}", "{{ namespace.__init__() }}", "{{ ''|attr('__class__')|attr('x') }}",
		"{{ lipsum.__globals__.os.popen('id') }}", "{% macro m() %}{% endmacro %}{{ m.__call__() }}", "{{ [1].sort() }}", "{{ {}.update({1: 2}) }}",
	} {
		tmpl, err := Parse(source, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = tmpl.Render(context.Background(), NewDict(), Options{})
		if !errors.Is(err, ErrSecurity) && !errors.Is(err, ErrUndefined) {
			t.Errorf("%s: error %v, want ErrSecurity or ErrUndefined", source, err)
		}
	}
}

// TestInputStays checks that a template cannot change the caller's lists.
func TestInputStays(t *testing.T) {
	vars, err := DecodeJSON([]byte(`{"l": [1, [2]]}`), true)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := Parse("{% do l.append(3) %}{% do l[1].pop() %}{{ l }}", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		pieces, err := tmpl.Render(context.Background(), vars.(*Dict), Options{})
		if err != nil || Text(pieces) != "[1, [], 3]" {
			t.Fatalf("got %q, %v", Text(pieces), err)
		}
	}
	if out, _ := EncodeJSON(vars); string(out) != `{"l": [1, [2]]}` {
		t.Errorf("input became %s", out)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tmpl, err := Parse("{% for i in range(100000) %}{{ i }}{% endfor %}", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(ctx, NewDict(), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestDecodeJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b": 1, "a": [true, null, 1.0, 1e16, -0.0], "b": 2}`, `{"b": 2, "a": [true, null, 1.0, 1e+16, -0.0]}`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`"\ud83d\ude00 \u00e9 \ud800"`, "\"😀 é \uFFFD\""},
		{`[1e400]`, `[Infinity]`},
		{` {} `, `{}`},
	} {
		v, err := DecodeJSON([]byte(c.in), false)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if out, err := EncodeJSON(v); err != nil || string(out) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.in, out, err, c.want)
		}
	}
	for _, in := range []string{
		``, `{`, `[1,]`, `{} {}`, `{"a"}`, `nul`, `01`, `"a`, strings.Repeat("[", 100_000), strings.Repeat("9", 5000),
		strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000),
	} {
		if v, err := DecodeJSON([]byte(in), false); err == nil {
			t.Errorf("%.30s: got %v, want an error", in, v)
		}
	}
}

func TestDict(t *testing.T) {
	d := NewDict()
	for i := range 100 {
		d.Set(fmt.Sprint("k", i), Int(i))
	}
	d.Set("k3", Int(-3))
	if v, ok := d.Get("k3"); !ok || v != Int(-3) || d.Len() != 100 {
		t.Errorf("got %v, %v of %d", v, ok, d.Len())
	}
	i := 0
	for k := range d.All() {
		if k != fmt.Sprint("k", i) {
			t.Fatalf("key %d is %s", i, k)
		}
		i++
	}
	c := d.Clone()
	c.Set("k0", None)
	if v, _ := d.Get("k0"); v != Int(0) {
		t.Error("a clone shares its places")
	}
}
