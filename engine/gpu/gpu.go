package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"godwit/engine/backend"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/shaders"
)

// Driver opens backends for the devices of one kind.
type Driver struct {
	Kind    string // cuda, hip, metal or emu
	List    func() ([]backend.Info, error)
	Connect func(device int) (Device, error)
}

// Name returns the kind of the driver.
func (d Driver) Name() string { return d.Kind }

// Devices lists the available devices.
func (d Driver) Devices() ([]backend.Info, error) { return d.List() }

// Open connects to a device. Attention on a GPU always uses float arithmetic,
// and weights keep the file's format, whatever the options are.
func (d Driver) Open(device int, o backend.Options) (backend.Backend, error) {
	dev, err := d.Connect(device)
	if err != nil {
		return nil, err
	}
	return &Backend{dev: dev, pipelines: map[string]Pipeline{}, shared: map[*graph.Weight]*shared{}, unchecked: o.Unchecked}, nil
}

// Backend compiles plans for one device. Programs of one Backend run one at a
// time.
type Backend struct {
	dev       Device
	pipelines map[string]Pipeline
	shared    map[*graph.Weight]*shared
	unchecked bool // whether weights may be NaN
}

// Info describes the device.
func (b *Backend) Info() backend.Info { return b.dev.Info() }

// Close releases the device.
func (b *Backend) Close() error { return b.dev.Close() }

// name returns the device's name for errors.
func (b *Backend) name() string {
	i := b.dev.Info()
	return i.Backend + " (" + i.Device + ")"
}

// pipeline returns a compiled kernel. It compiles each kernel once for each set
// of constants.
func (b *Backend) pipeline(kernel string, c shaders.Constants) (Pipeline, error) {
	var key strings.Builder
	key.WriteString(kernel)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&key, " %s=%d", name, c[name])
	}
	if p := b.pipelines[key.String()]; p != nil {
		return p, nil
	}
	k := shaders.Find(kernel)
	if k == nil {
		return nil, fmt.Errorf("%w: kernel %s on %s", backend.ErrUnsupported, kernel, b.name())
	}
	p, err := b.dev.Pipeline(k, c)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", key.String(), err)
	}
	b.pipelines[key.String()] = p
	return p, nil
}

// Compile prepares a plan: weights, cache and scratch memory on the device, and
// the list of launches.
func (b *Backend) Compile(ctx context.Context, plan *graph.Plan, l *layout.Layout, s backend.Sizes) (backend.Program, error) {
	if err := holds(l, b.name()); err != nil {
		return nil, err
	}
	p := &program{b: b, dev: b.dev, plan: plan, layout: l, sizes: s, out: plan.Values[plan.Output], graphs: map[graphKey]Graph{}}
	for _, n := range plan.Nodes {
		if _, ok := n.Op.(graph.Pool); ok {
			p.pools = true
		}
	}
	if err := p.build(ctx); err != nil {
		if errors.Is(err, backend.ErrUnsupported) {
			err = fmt.Errorf("%w; the CPU backend runs it", err)
		}
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}
