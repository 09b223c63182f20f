//go:build linux || windows

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"
)

// flavor is one of the two libraries with the driver API.
type flavor int

const (
	nvidia flavor = iota // libcuda
	amd                  // libamdhip64
)

// api holds the functions of a driver library.
type api struct {
	flavor flavor

	start, version, count, device, name, attribute, total uintptr
	retain, release, current                              uintptr
	memInfo, alloc, free, set, toDevice, toHost           uintptr
	streamCreate, streamDestroy, streamWait               uintptr
	loadModule, function, unload, launch                  uintptr
	beginCapture, endCapture, instantiate                 uintptr
	graphLaunch, graphDestroy, execDestroy                uintptr
	errorString                                           uintptr
}

// symbol is the name of a function in both libraries. It is empty if that library
// does not need the function.
type symbol struct {
	at        func(*api) *uintptr
	cuda, hip string
}

var symbols = []symbol{
	{func(a *api) *uintptr { return &a.start }, "cuInit", "hipInit"},
	{func(a *api) *uintptr { return &a.version }, "cuDriverGetVersion", "hipDriverGetVersion"},
	{func(a *api) *uintptr { return &a.count }, "cuDeviceGetCount", "hipGetDeviceCount"},
	{func(a *api) *uintptr { return &a.device }, "cuDeviceGet", "hipDeviceGet"},
	{func(a *api) *uintptr { return &a.name }, "cuDeviceGetName", "hipDeviceGetName"},
	{func(a *api) *uintptr { return &a.attribute }, "cuDeviceGetAttribute", "hipDeviceGetAttribute"},
	{func(a *api) *uintptr { return &a.total }, "cuDeviceTotalMem_v2", "hipDeviceTotalMem"},
	{func(a *api) *uintptr { return &a.retain }, "cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain"},
	{func(a *api) *uintptr { return &a.release }, "cuDevicePrimaryCtxRelease_v2", "hipDevicePrimaryCtxRelease"},
	{func(a *api) *uintptr { return &a.current }, "cuCtxSetCurrent", "hipCtxSetCurrent"},
	{func(a *api) *uintptr { return &a.memInfo }, "cuMemGetInfo_v2", "hipMemGetInfo"},
	{func(a *api) *uintptr { return &a.alloc }, "cuMemAlloc_v2", "hipMalloc"},
	{func(a *api) *uintptr { return &a.free }, "cuMemFree_v2", "hipFree"},
	{func(a *api) *uintptr { return &a.set }, "cuMemsetD8Async", "hipMemsetD8Async"},
	{func(a *api) *uintptr { return &a.toDevice }, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"},
	{func(a *api) *uintptr { return &a.toHost }, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"},
	{func(a *api) *uintptr { return &a.streamCreate }, "cuStreamCreate", "hipStreamCreateWithFlags"},
	{func(a *api) *uintptr { return &a.streamDestroy }, "cuStreamDestroy_v2", "hipStreamDestroy"},
	{func(a *api) *uintptr { return &a.streamWait }, "cuStreamSynchronize", "hipStreamSynchronize"},
	{func(a *api) *uintptr { return &a.loadModule }, "cuModuleLoadDataEx", "hipModuleLoadDataEx"},
	{func(a *api) *uintptr { return &a.function }, "cuModuleGetFunction", "hipModuleGetFunction"},
	{func(a *api) *uintptr { return &a.unload }, "cuModuleUnload", "hipModuleUnload"},
	{func(a *api) *uintptr { return &a.launch }, "cuLaunchKernel", "hipModuleLaunchKernel"},
	{func(a *api) *uintptr { return &a.beginCapture }, "cuStreamBeginCapture_v2", "hipStreamBeginCapture"},
	{func(a *api) *uintptr { return &a.endCapture }, "cuStreamEndCapture", "hipStreamEndCapture"},
	{func(a *api) *uintptr { return &a.instantiate }, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags"},
	{func(a *api) *uintptr { return &a.graphLaunch }, "cuGraphLaunch", "hipGraphLaunch"},
	{func(a *api) *uintptr { return &a.graphDestroy }, "cuGraphDestroy", "hipGraphDestroy"},
	{func(a *api) *uintptr { return &a.execDestroy }, "cuGraphExecDestroy", "hipGraphExecDestroy"},
	{func(a *api) *uintptr { return &a.errorString }, "cuGetErrorString", "hipGetErrorString"},
}

// bind looks up the functions. If one is missing, the driver is too old.
func (a *api) bind(find func(name string) (uintptr, error)) error {
	for _, s := range symbols {
		name := s.cuda
		if a.flavor == amd {
			name = s.hip
		}
		fn, err := find(name)
		if err != nil || fn == 0 {
			return fmt.Errorf("%w: it has no %s", errOld, name)
		}
		*s.at(a) = fn
	}
	return nil
}

// result codes that the package handles, which are the same in both libraries
const (
	success        = 0
	outOfMemory    = 2
	notInitialized = 3 // returned by calls after an initialisation that found no device
	noDevice       = 100
	invalidDevice  = 101 // returned by HIP's initialisation without a device
)

// call calls a function of the library. A pointer among the arguments must be
// written as uintptr(unsafe.Pointer(p)) in the argument list itself. Only
// there, the compiler recognises it, moves its target to the heap and keeps the
// target alive until call returns.
//
//go:uintptrescapes
func (a *api) call(what string, fn uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(fn, args...)
	if code := int32(uint32(r)); code != success {
		return &callError{what, code, a.text(code)}
	}
	return nil
}

// callError is an error code from the driver.
type callError struct {
	what string
	code int32
	text string
}

func (e *callError) Error() string {
	return fmt.Sprintf("%s: error %d: %s", e.what, e.code, e.text)
}

// says reports whether an error is one of the given error codes.
func says(err error, codes ...int32) bool {
	var e *callError
	return errors.As(err, &e) && slices.Contains(codes, e.code)
}

// text returns the driver's description of a code. CUDA's function stores a
// pointer to the text, and HIP's function returns one.
func (a *api) text(code int32) string {
	var s *byte
	r, _, _ := purego.SyscallN(a.errorString, uintptr(code), uintptr(unsafe.Pointer(&s)))
	if a.flavor == amd {
		s, r = *(**byte)(unsafe.Pointer(&r)), success
	}
	if uint32(r) != success || s == nil {
		return "unknown"
	}
	n := 0
	for n < 256 && *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}
