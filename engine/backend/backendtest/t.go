package backendtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/engine/backend"
	"godwit/engine/kv"
)

// T is the part of a test that the suite needs. Under go test it is
// gotest.Of(t). Check runs the suite outside of a test.
type T interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	Run(name string, f func(t T)) bool
	Short() bool
}

// Failure is a case that failed in Check.
type Failure struct {
	Case string `json:"case"`
	Text string `json:"text"`
}

// Result is the result of Check.
type Result struct {
	Cases    int           `json:"cases"`
	Failures []Failure     `json:"failures"`
	Time     time.Duration `json:"time_ns"`
}

// checkedDims are the head sizes at which Check writes and reads every cache type.
var checkedDims = []int{64, 128}

// Check runs the suite of Run on a driver's first device, and checks every cache type
// that the device supports, paired with itself. progress is called with the name of
// each part when the part begins. progress may be nil. Failures are in the result.
// The error is the error of ctx.
func Check(ctx context.Context, d backend.Driver, o backend.Options, progress func(name string)) (Result, error) {
	o.Unchecked = true // some cases are hostile on purpose
	start := time.Now()
	c := &check{results: &results{ctx: ctx, progress: progress}}
	c.run(func(t T) {
		Run(t, d, o)
		b, err := d.Open(0, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		t.Run("cache types", func(t T) { cacheTypes(t, d, b) })
	})
	return Result{c.cases, c.failures, time.Since(start)}, ctx.Err()
}

// cacheTypes checks attention over every cache type that a device supports.
func cacheTypes(t T, d backend.Driver, b backend.Backend) {
	for _, typ := range kv.Types() {
		for _, dim := range checkedDims {
			a := Attention{K: typ.Name, V: typ.Name, Heads: 4, KVHeads: 2, DimK: dim, DimV: dim, Chunks: matrixChunks, Float: true}
			layout := a.layout(t)
			if h, ok := d.(backend.Holder); ok && errors.Is(h.Holds(&layout), backend.ErrUnsupported) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", typ.Name, dim), func(t T) { CheckAttention(t, b, a) })
		}
	}
}

// check implements T for Check. It counts cases and collects failures.
type check struct {
	name     string
	parent   *check
	failed   bool
	cleanups []func()
	*results
}

type results struct {
	ctx      context.Context
	cases    int // number of subtests that contain no other case
	failures []Failure
	progress func(name string)
}

// stop unwinds a case that cannot continue.
type stop struct{}

func (c *check) Helper()          {}
func (c *check) Short() bool      { return true }
func (c *check) Cleanup(f func()) { c.cleanups = append(c.cleanups, f) }

func (c *check) Error(args ...any) { c.fail(fmt.Sprint(args...)) }

func (c *check) Errorf(format string, args ...any) { c.fail(fmt.Sprintf(format, args...)) }

func (c *check) Fatal(args ...any) {
	c.fail(fmt.Sprint(args...))
	panic(stop{})
}

func (c *check) Fatalf(format string, args ...any) {
	c.fail(fmt.Sprintf(format, args...))
	panic(stop{})
}

func (c *check) fail(text string) {
	for p := c; p != nil; p = p.parent {
		p.failed = true
	}
	c.failures = append(c.failures, Failure{c.name, text})
}

// Run runs a case. A panic counts as a failure of this case only.
func (c *check) Run(name string, f func(T)) bool {
	sub := &check{name: name, parent: c, results: c.results}
	if c.name != "" {
		sub.name = c.name + "/" + name
	}
	before := c.cases
	if c.ctx.Err() != nil {
		panic(stop{})
	}
	if c.progress != nil {
		c.progress(sub.name)
	}
	sub.run(f)
	if c.cases == before {
		c.cases++
	}
	return !sub.failed
}

func (c *check) run(f func(T)) {
	defer func() {
		for i := range c.cleanups {
			c.cleanups[len(c.cleanups)-1-i]()
		}
	}()
	defer func() {
		if r := recover(); r != nil && r != any(stop{}) {
			c.fail(fmt.Sprint("panic: ", r))
		}
	}()
	f(c)
}
