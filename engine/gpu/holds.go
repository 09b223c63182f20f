package gpu

import (
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/kv/layout"
	"godwit/shaders"
)

// Holds returns backend.ErrUnsupported if a cache of the layout has no kernel.
// Compile returns the same error. Holds opens no device.
func (d Driver) Holds(l *layout.Layout) error { return holds(l, d.Kind) }

// holds does the same as Holds, with a device name for the error.
func holds(l *layout.Layout, device string) error {
	for i := range l.Layers {
		y := &l.Layers[i]
		own := y
		if y.Share >= 0 {
			own = &l.Layers[y.Share]
		}
		if !own.Owns() {
			continue
		}
		if own.Exact.Budget != nil {
			return fmt.Errorf("%w: an exact window that depends on the position (--kv-memory), on %s; the CPU backend runs it, and --exact-window runs here", backend.ErrUnsupported, device)
		}
		k, v, err := caches(own, own.RopeBase)
		if err == nil {
			_, err = shaders.NewAttention(k, v, y.Heads, own.KVHeads, 1)
		}
		if err != nil {
			return fmt.Errorf("%w: attention of layer %d with the cache types %s and %s, on %s: %w; the CPU backend runs it",
				backend.ErrUnsupported, y.Layer, own.K.Active.Name, own.V.Active.Name, device, err)
		}
	}
	return nil
}

// caches describes K and V of a layer to kernels.
func caches(y *layout.Layer, ropeBase float32) (k, v *shaders.Cache, err error) {
	side := func(s *layout.Side, ropeBase float32) (*shaders.Cache, error) {
		c, err := shaders.NewCache(s.Active, s.HeadDim, ropeBase)
		if err == nil {
			err = c.Beside(s.Exact, s.Pinned)
		}
		return c, err
	}
	if k, err = side(&y.K, ropeBase); err != nil {
		return nil, nil, err
	}
	if k.SelfCalibrated = y.K.SelfCalibrated; k.SelfCalibrated && !k.PackedByPage() {
		return nil, nil, fmt.Errorf("%w: keys that each conversation calibrates, in %s", shaders.ErrForm, y.K.Active.Name)
	}
	if y.V.View {
		return k, k.View(y.V.HeadDim), nil
	}
	v, err = side(&y.V, 0)
	return k, v, err
}
