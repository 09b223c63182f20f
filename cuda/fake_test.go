//go:build linux

package cuda

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"godwit/engine/gpu"
	"godwit/shaders"
	"godwit/shaders/emu"
)

// fake is a libcuda in Go. Its callbacks have the C signatures of the driver
// API and run kernels on the emulator. The code that calls it is the real one.
type fake struct {
	dev     gpu.Device
	byPTX   map[string]shaders.Instance
	memory  []*fakeBuffer // ascending
	next    uint64
	handles map[uintptr]any
	handle  uintptr
	capture []func() int32 // captured launches; nil if launches run immediately
	graphs  int            // graphs that were started

	symbols map[string]uintptr
	version int32
	cards   int32
	major   int32
	free    uint64
	fail    map[string]int32 // results of functions that fail
	before  func(string)     // runs before the function with the name returns
}

type fakeBuffer struct {
	at, size uint64
	buffer   gpu.Buffer
}

// packed maps PTX to its instance.
var packed = sync.OnceValues(func() (map[string]shaders.Instance, error) {
	all, err := images()
	if err != nil {
		return nil, err
	}
	m := map[string]shaders.Instance{}
	for _, in := range shaders.Instances() {
		f := all[in.Name()]
		if f == nil {
			return nil, fmt.Errorf("%s is not in the pack", in.Name())
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		m[string(text)] = in
	}
	return m, nil
})

func newFake(t testing.TB) *fake {
	t.Helper()
	dev, err := emu.Open(emu.Options{MMA: 1})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{
		dev: dev, next: 1 << 40, handles: map[uintptr]any{}, version: 12040, cards: 1, major: 8, free: 1 << 34,
		fail: map[string]int32{},
	}
	if f.byPTX, err = packed(); err != nil {
		t.Fatal(err)
	}
	f.symbols = callbacks(f)
	return f
}

// api returns the driver API of the fake.
func (f *fake) api() (*api, error) {
	a := &api{flavor: nvidia}
	if err := a.bind(f.find); err != nil {
		return nil, err
	}
	return a, a.begin()
}

func (f *fake) find(name string) (uintptr, error) {
	if fn := f.symbols[name]; fn != 0 {
		return fn, nil
	}
	return 0, fmt.Errorf("undefined symbol: %s", name)
}

// add returns the handle of a new object.
func (f *fake) add(x any) uintptr {
	f.handle++
	f.handles[f.handle] = x
	return f.handle
}

// at finds the buffer that contains an address.
func (f *fake) at(address uint64) (gpu.Buffer, int64) {
	for _, b := range f.memory {
		if b.at <= address && address < b.at+b.size {
			return b.buffer, int64(address - b.at)
		}
	}
	panic(fmt.Sprintf("fakecuda: %#x is not device memory", address))
}

// results of the driver API that the fake returns
const (
	invalidValue  = 1
	invalidHandle = 400
	notFound      = 500
	launchFailed  = 719
)

func code(err error) int32 {
	if err != nil {
		return launchFailed
	}
	return success
}

// texts holds the texts that cuGetErrorString returns.
var texts = map[int32][]byte{
	outOfMemory: []byte("out of memory\x00"), noDevice: []byte("no CUDA-capable device is detected\x00"),
	launchFailed: []byte("unspecified launch failure\x00"), 218: []byte("a PTX JIT compilation failed\x00"),
}

// The number of callbacks in a process is limited, so slots makes them once. They
// call the fake inUse.
var (
	inUse *fake
	slots = sync.OnceValue(makeCallbacks)
)

func callbacks(f *fake) map[string]uintptr {
	inUse = f
	m := map[string]uintptr{}
	for name, fn := range slots() {
		m[name] = fn
	}
	return m
}

// word is an argument or a result.
type word = uintptr

func bytesAt(p unsafe.Pointer, n word) []byte { return unsafe.Slice((*byte)(p), n) }

// makeCallbacks makes the functions of the API.
func makeCallbacks() map[string]uintptr {
	m := map[string]uintptr{}
	add := func(name string, fn any) { m[name] = purego.NewCallback(fn) }
	set := func(name string, f func(*fake) int32) func() word {
		return func() word {
			if inUse.before != nil {
				inUse.before(name)
			}
			if c, ok := inUse.fail[name]; ok {
				return word(c)
			}
			return word(f(inUse))
		}
	}
	deviceCallbacks(add, set)
	memoryCallbacks(add, set)
	moduleCallbacks(add, set)
	graphCallbacks(add, set)
	return m
}

type (
	adder  = func(name string, fn any)
	setter = func(name string, f func(*fake) int32) func() word
)

func deviceCallbacks(add adder, set setter) {
	done := func(name string) func() word { return set(name, func(*fake) int32 { return success }) }
	add("cuInit", func(flags word) word {
		return set("cuInit", func(f *fake) int32 {
			if f.cards == 0 {
				return noDevice
			}
			return success
		})()
	})
	add("cuDriverGetVersion", func(to *int32) word {
		return set("cuDriverGetVersion", func(f *fake) int32 { *to = f.version; return success })()
	})
	add("cuDeviceGetCount", func(to *int32) word {
		return set("cuDeviceGetCount", func(f *fake) int32 { *to = f.cards; return success })()
	})
	add("cuDeviceGet", func(to *int32, i word) word { *to = int32(i) + 7; return done("cuDeviceGet")() })
	add("cuDeviceGetName", func(to unsafe.Pointer, n word, card word) word {
		copy(bytesAt(to, n), "fake card\x00")
		return done("cuDeviceGetName")()
	})
	add("cuDeviceGetAttribute", func(to *int32, what word, card word) word {
		return set("cuDeviceGetAttribute", func(f *fake) int32 {
			*to = map[word]int32{75: f.major, 76: 6, 16: 4}[what]
			return success
		})()
	})
	add("cuDeviceTotalMem_v2", func(to *uint64, card word) word { *to = 1 << 34; return done("cuDeviceTotalMem_v2")() })
	add("cuDevicePrimaryCtxRetain", func(to *word, card word) word { *to = 99; return done("cuDevicePrimaryCtxRetain")() })
	add("cuDevicePrimaryCtxRelease_v2", func(card word) word { return done("cuDevicePrimaryCtxRelease_v2")() })
	add("cuCtxSetCurrent", func(context word) word {
		if context != 99 {
			return invalidValue
		}
		return done("cuCtxSetCurrent")()
	})
	add("cuGetErrorString", func(result word, to **byte) word {
		if text := texts[int32(result)]; text != nil {
			*to = &text[0]
			return success
		}
		return invalidValue
	})
}

func memoryCallbacks(add adder, set setter) {
	add("cuMemGetInfo_v2", func(free, total *uint64) word {
		return set("cuMemGetInfo_v2", func(f *fake) int32 { *free, *total = f.free, 1<<34; return success })()
	})
	add("cuMemAlloc_v2", func(to *uint64, size word) word {
		return set("cuMemAlloc_v2", func(f *fake) int32 {
			if uint64(size) > f.free {
				return outOfMemory
			}
			b, err := f.dev.Alloc(int64(size), nil, "device memory")
			if err != nil {
				return outOfMemory
			}
			f.free -= uint64(size)
			f.memory = append(f.memory, &fakeBuffer{f.next, uint64(size), b})
			*to = f.next
			f.next += (uint64(size) + 511) &^ 255
			return success
		})()
	})
	add("cuMemFree_v2", func(at word) word {
		return set("cuMemFree_v2", func(f *fake) int32 {
			i := slices.IndexFunc(f.memory, func(b *fakeBuffer) bool { return b.at == uint64(at) })
			if i < 0 {
				return invalidValue
			}
			err := f.memory[i].buffer.Close()
			f.free += f.memory[i].size
			f.memory = slices.Delete(f.memory, i, i+1)
			return code(err)
		})()
	})
	add("cuMemsetD8Async", func(at word, value word, n word, stream word) word {
		return set("cuMemsetD8Async", func(f *fake) int32 {
			b, offset := f.at(uint64(at))
			return code(f.dev.Upload(b, offset, slices.Repeat([]byte{byte(value)}, int(n))))
		})()
	})
	add("cuMemcpyHtoDAsync_v2", func(at word, from unsafe.Pointer, n word, stream word) word {
		return set("cuMemcpyHtoDAsync_v2", func(f *fake) int32 {
			b, offset := f.at(uint64(at))
			return code(f.dev.Upload(b, offset, bytesAt(from, n)))
		})()
	})
	add("cuMemcpyDtoHAsync_v2", func(to unsafe.Pointer, at word, n word, stream word) word {
		return set("cuMemcpyDtoHAsync_v2", func(f *fake) int32 {
			b, offset := f.at(uint64(at))
			return code(f.dev.Download(bytesAt(to, n), b, offset))
		})()
	})
}

func moduleCallbacks(add adder, set setter) {
	add("cuModuleLoadDataEx", func(to *word, image unsafe.Pointer, n word, options unsafe.Pointer, values *jitValues) word {
		if c := inUse.fail["cuModuleLoadDataEx"]; c != 0 {
			copy(unsafe.Slice(values.log, values.size), "ptxas fatal: wrong\x00")
			return word(c)
		}
		return set("cuModuleLoadDataEx", func(f *fake) int32 {
			size := word(0)
			for *(*byte)(unsafe.Add(image, size)) != 0 {
				size++
			}
			in, ok := f.byPTX[string(bytesAt(image, size))]
			if !ok {
				return 218
			}
			*to = f.add(in)
			return success
		})()
	})
	add("cuModuleGetFunction", func(to *word, module word, name *byte) word {
		return set("cuModuleGetFunction", func(f *fake) int32 {
			in := f.handles[module].(shaders.Instance)
			if text := string(bytesAt(unsafe.Pointer(name), word(len(in.Kernel.Name)+1))); text != in.Kernel.Name+"\x00" {
				return notFound
			}
			p, err := f.dev.Pipeline(in.Kernel, in.Constants)
			if err != nil {
				return notFound
			}
			*to = f.add(p)
			return success
		})()
	})
	add("cuModuleUnload", func(module word) word {
		return set("cuModuleUnload", func(f *fake) int32 { delete(f.handles, module); return success })()
	})
	add("cuLaunchKernel", func(fn, gx, gy, gz, bx, by, bz, shared, stream word, params *[maxArgs + 1]unsafe.Pointer, extra word) word {
		return set("cuLaunchKernel", func(f *fake) int32 {
			p, ok := f.handles[fn].(gpu.Pipeline)
			if !ok || int(bx) != p.Kernel().Group || by != 1 || bz != 1 || gx == 0 || gy == 0 || gz == 0 {
				return invalidValue
			}
			return f.launch(p, [3]uint32{uint32(gx), uint32(gy), uint32(gz)}, params[:])
		})()
	})
}

// launch runs a kernel, or stores it while launches are captured. Like the
// driver, it reads the arguments immediately.
func (f *fake) launch(p gpu.Pipeline, grid [3]uint32, params []unsafe.Pointer) int32 {
	k := p.Kernel()
	var args []gpu.Bind
	for i := range k.Args {
		b, offset := f.at(*(*uint64)(params[i]))
		args = append(args, gpu.Bind{Buffer: b, Offset: offset})
	}
	values := slices.Clone(bytesAt(params[len(k.Args)], reflect.TypeOf(k.Params).Size()))
	run := func() int32 {
		f.dev.Launch(p, grid, args, values)
		f.dev.Barrier()
		return code(f.dev.Submit())
	}
	if f.capture != nil {
		f.capture = append(f.capture, run)
		return success
	}
	return run()
}

func graphCallbacks(add adder, set setter) {
	add("cuStreamCreate", func(to *word, flags word) word {
		return set("cuStreamCreate", func(f *fake) int32 { *to = f.add("stream"); return success })()
	})
	add("cuStreamDestroy_v2", func(stream word) word { return set("cuStreamDestroy_v2", func(*fake) int32 { return success })() })
	add("cuStreamSynchronize", func(stream word) word {
		return set("cuStreamSynchronize", func(f *fake) int32 { return code(f.dev.Wait()) })()
	})
	add("cuStreamBeginCapture_v2", func(stream, mode word) word {
		return set("cuStreamBeginCapture_v2", func(f *fake) int32 { f.capture = []func() int32{}; return success })()
	})
	add("cuStreamEndCapture", func(stream word, to *word) word {
		return set("cuStreamEndCapture", func(f *fake) int32 {
			*to, f.capture = f.add(f.capture), nil
			return success
		})()
	})
	add("cuGraphInstantiateWithFlags", func(to *word, graph word, flags word) word {
		return set("cuGraphInstantiateWithFlags", func(f *fake) int32 { *to = f.add(f.handles[graph]); return success })()
	})
	add("cuGraphLaunch", func(exec, stream word) word {
		return set("cuGraphLaunch", func(f *fake) int32 {
			list, ok := f.handles[exec].([]func() int32)
			if !ok {
				return invalidHandle
			}
			f.graphs++
			for _, run := range list {
				if c := run(); c != success {
					return c
				}
			}
			return success
		})()
	})
	for _, name := range []string{"cuGraphDestroy", "cuGraphExecDestroy"} {
		add(name, func(x word) word {
			return set(name, func(f *fake) int32 { delete(f.handles, x); return success })()
		})
	}
}
