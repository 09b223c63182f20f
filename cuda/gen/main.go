//go:build linux

// Command gen compiles every instance of the kernels to PTX with NVRTC and
// packs the results. NVIDIA's driver compiles them at run time. It runs on any
// Linux machine without a GPU. Instances with unchanged source are copied from
// the old pack.
//
//	go run ./gen -nvrtc libnvrtc.so.11.2 -o kernels.zip
//	go run ./gen -ptxas ptxas -record assembled.txt -o kernels.zip
//	go run ./gen -ptxas ptxas -record assembled.txt -sm 75,86,90 -o kernels.zip
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"godwit/cuda"
	"godwit/shaders"
)

func main() {
	lib := flag.String("nvrtc", "", "path of NVIDIA's libnvrtc")
	out := flag.String("o", "kernels.zip", "pack to write")
	ptxas := flag.String("ptxas", "", "instead of compiling, assemble the pack with this ptxas and renew the record")
	path := flag.String("record", "assembled.txt", "what is known of the pack's images")
	archs := flag.String("sm", "", "with -ptxas: check changed images for these architectures alone, and leave the record as it is")
	flag.Parse()
	var err error
	switch {
	case *ptxas != "":
		var a *assembler
		if a, err = newAssembler(*ptxas, *out, *path); err != nil {
			break
		}
		if *archs != "" {
			err = a.check(strings.Split(*archs, ","))
		} else {
			err = a.renew(*path)
		}
	default:
		err = run(*lib, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes the pack.
func run(lib, out string) error {
	have, err := read(out)
	if err != nil {
		return err
	}
	list := shaders.Instances()
	images, hashes := make([][]byte, len(list)), make([]string, len(list))
	var todo []int
	for i, in := range list {
		if hashes[i], err = in.Hash(cuda.Flags(in)...); err != nil {
			return err
		}
		if images[i] = have[in.Name()+"\x00"+hashes[i]]; images[i] == nil {
			todo = append(todo, i)
		}
	}
	if len(todo) > 0 {
		if err := compile(lib, list, images, todo); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for i, in := range list {
		f, err := w.CreateHeader(&zip.FileHeader{Name: in.Name(), Comment: hashes[i], Method: zip.Deflate})
		if err == nil {
			_, err = f.Write(images[i])
		}
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Printf("%d kernels, %d compiled, %d bytes\n", len(list), len(todo), b.Len())
	return os.WriteFile(out, b.Bytes(), 0o644)
}

// read returns the images in a pack, by name and hash, or none if the pack is
// missing.
func read(path string) (map[string][]byte, error) {
	r, err := zip.OpenReader(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	images := map[string][]byte{}
	for _, f := range r.File {
		e, err := f.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(e)
		if err = errors.Join(err, e.Close()); err != nil {
			return nil, err
		}
		images[f.Name+"\x00"+f.Comment] = data
	}
	return images, r.Close()
}

// nvrtc holds the functions of the compiler.
type nvrtc struct {
	create, compile, logSize, log, size, ptx, destroy uintptr
}

// compile compiles the missing images.
func compile(lib string, list []shaders.Instance, images [][]byte, todo []int) error {
	handle, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return err
	}
	var c nvrtc
	for name, at := range map[string]*uintptr{
		"nvrtcCreateProgram": &c.create, "nvrtcCompileProgram": &c.compile, "nvrtcGetProgramLogSize": &c.logSize,
		"nvrtcGetProgramLog": &c.log, "nvrtcGetPTXSize": &c.size, "nvrtcGetPTX": &c.ptx, "nvrtcDestroyProgram": &c.destroy,
	} {
		if *at, err = purego.Dlsym(handle, name); err != nil {
			return err
		}
	}
	jobs, errs := make(chan int), make([]error, len(todo))
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for j := range jobs {
				images[todo[j]], errs[j] = c.build(list[todo[j]])
			}
		})
	}
	for j := range todo {
		jobs <- j
	}
	close(jobs)
	wg.Wait()
	return errors.Join(errs...)
}

// build compiles one instance.
func (c *nvrtc) build(in shaders.Instance) ([]byte, error) {
	text, err := in.Kernel.Source(in.Constants)
	if err != nil {
		return nil, err
	}
	source, name := append([]byte(text), 0), append([]byte(in.Kernel.Name), 0)
	var program uintptr
	if err := call("create program", c.create, uintptr(unsafe.Pointer(&program)), uintptr(unsafe.Pointer(&source[0])), uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
		return nil, err
	}
	flags := cuda.Flags(in)
	options := make([]*byte, len(flags))
	for i, o := range flags {
		options[i] = &append([]byte(o), 0)[0]
	}
	err = call("compile", c.compile, program, uintptr(len(options)), uintptr(unsafe.Pointer(&options[0])))
	if err != nil {
		said, e := fetch(program, c.logSize, c.log)
		return nil, errors.Join(fmt.Errorf("%s: %w", in.Name(), err), e, errors.New(string(said)))
	}
	image, err := fetch(program, c.size, c.ptx)
	return slim(image), errors.Join(err, call("end program", c.destroy, uintptr(unsafe.Pointer(&program))))
}

// comments matches lines of PTX that the driver ignores.
var comments = regexp.MustCompile(`(?m)^\s*(//.*)?\n`)

// slim removes comments, empty lines and the zero byte at the end.
func slim(ptx []byte) []byte { return comments.ReplaceAll(bytes.TrimRight(ptx, "\x00"), nil) }

// fetch calls a function that returns a size, and then a function that returns
// that many bytes.
func fetch(program, size, data uintptr) ([]byte, error) {
	var n uintptr
	if err := call("size", size, program, uintptr(unsafe.Pointer(&n))); err != nil || n == 0 {
		return nil, err
	}
	b := make([]byte, n)
	return b, call("data", data, program, uintptr(unsafe.Pointer(&b[0])))
}

// call calls a function of the compiler. Pointers must be converted in the
// argument list, because only there the compiler notices that they escape.
//
//go:uintptrescapes
func call(what string, fn uintptr, args ...uintptr) error {
	if code, _, _ := purego.SyscallN(fn, args...); int32(uint32(code)) != 0 {
		return fmt.Errorf("nvrtc: %s: error %d", what, int32(uint32(code)))
	}
	return nil
}
