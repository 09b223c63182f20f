package vision_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"godwit/engine/internal/golden"
	"godwit/engine/vision"
)

// tower opens the golden projector of a family.
func tower(t testing.TB, name string) *vision.Tower {
	t.Helper()
	for _, m := range golden.Towers(t) {
		if m.Name == name {
			return openFile(t, m.Path(t, m.MMProj))
		}
	}
	t.Fatalf("no golden tower %s", name)
	return nil
}

// gradient returns a picture in which all pixels differ.
func gradient(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetNRGBA(x, y, color.NRGBA{uint8(7 * x), uint8(11 * y), uint8(x * y), 255})
		}
	}
	return img
}

// files returns one small picture in every format that Go can write.
func files(t testing.TB) map[string][]byte {
	t.Helper()
	img := gradient(40, 30)
	out := map[string][]byte{}
	for name, write := range map[string]func(b *bytes.Buffer) error{
		"png":  func(b *bytes.Buffer) error { return png.Encode(b, img) },
		"jpeg": func(b *bytes.Buffer) error { return jpeg.Encode(b, img, &jpeg.Options{Quality: 100}) },
		"gif":  func(b *bytes.Buffer) error { return gif.Encode(b, img, nil) },
		"bmp":  func(b *bytes.Buffer) error { return bmp.Encode(b, img) },
		"tiff": func(b *bytes.Buffer) error { return tiff.Encode(b, img, nil) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		out[name] = b.Bytes()
	}
	return out
}

// TestFormats reads a picture in every format.
func TestFormats(t *testing.T) {
	tw := tower(t, "gemma3-f16")
	want, err := tw.Prepare(files(t)["png"], vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files(t) {
		p, err := tw.Prepare(data, vision.Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		exact := name == "png" || name == "bmp" || name == "tiff"
		if p.Width != 40 || p.Height != 30 || exact && p.Hash != want.Hash {
			t.Errorf("%s: %d × %d pixels, or others than in the PNG", name, p.Width, p.Height)
		}
	}
}

// withEXIF puts an orientation into a JPEG.
func withEXIF(data []byte, orientation uint16, order binary.AppendByteOrder) []byte {
	mark := map[bool]string{true: "II", false: "MM"}[order == binary.AppendByteOrder(binary.LittleEndian)]
	b := order.AppendUint16([]byte(mark), 42)
	b = order.AppendUint16(order.AppendUint32(b, 8), 1)
	b = order.AppendUint16(order.AppendUint16(b, 0x112), 3)
	b = order.AppendUint16(order.AppendUint16(order.AppendUint32(b, 1), orientation), 0)
	b = append([]byte("Exif\x00\x00"), order.AppendUint32(b, 0)...)
	head := binary.BigEndian.AppendUint16([]byte{0xff, 0xd8, 0xff, 0xe1}, uint16(len(b)+2))
	return append(append(head, b...), data[2:]...)
}

// TestOrientation checks EXIF orientations. Each picture is transformed before it
// is saved, with the orientation that undoes the transformation, and must decode to
// the upright picture.
func TestOrientation(t *testing.T) {
	tw := tower(t, "internvl")
	img := gradient(40, 30)
	// at[o] maps the pixels of the upright picture to those stored in a file with
	// orientation o.
	at := map[uint16]func(x, y int) (int, int){
		1: func(x, y int) (int, int) { return x, y },
		2: func(x, y int) (int, int) { return 39 - x, y },
		3: func(x, y int) (int, int) { return 39 - x, 29 - y },
		4: func(x, y int) (int, int) { return x, 29 - y },
		5: func(x, y int) (int, int) { return y, x },
		6: func(x, y int) (int, int) { return y, 39 - x },
		7: func(x, y int) (int, int) { return 29 - y, 39 - x },
		8: func(x, y int) (int, int) { return 29 - y, x },
	}
	for o, place := range at {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			w, h := 40, 30
			if o >= 5 {
				w, h = 30, 40
			}
			lying := image.NewGray(image.Rect(0, 0, w, h))
			for y := range 30 {
				for x := range 40 {
					fx, fy := place(x, y)
					lying.Set(fx, fy, img.At(x, y))
				}
			}
			var b bytes.Buffer
			if err := jpeg.Encode(&b, lying, &jpeg.Options{Quality: 100}); err != nil {
				t.Fatal(err)
			}
			p, err := tw.Prepare(withEXIF(b.Bytes(), o, order), vision.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Width != 40 || p.Height != 30 {
				t.Errorf("orientation %d: %d × %d pixels", o, p.Width, p.Height)
			}
			// the overview of a gradient shows where its corners are
			px := p.Tiles[len(p.Tiles)-1]
			corner := func(x, y int) float32 { return px.Pixels[y*px.Width+x] }
			upright, err := tw.Prepare(withEXIF(grey(t, img), 1, order), vision.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			up := upright.Tiles[len(upright.Tiles)-1]
			for _, c := range [][2]int{{0, 0}, {px.Width - 1, 0}, {0, px.Height - 1}, {px.Width - 1, px.Height - 1}} {
				if d := corner(c[0], c[1]) - up.Pixels[c[1]*up.Width+c[0]]; d > 0.1 || d < -0.1 {
					t.Errorf("orientation %d: corner %v differs by %g", o, c, d)
				}
			}
		}
	}
}

// grey returns a picture as a JPEG without colours.
func grey(t testing.TB, img image.Image) []byte {
	t.Helper()
	g := image.NewGray(img.Bounds())
	for y := range g.Rect.Dy() {
		for x := range g.Rect.Dx() {
			g.Set(x, y, img.At(x, y))
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, g, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bomb returns a PNG header for a large size without the pixels.
func bomb(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
		body := append([]byte(kind), data...)
		b = binary.BigEndian.AppendUint32(append(b, body...), crc32.ChecksumIEEE(body))
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	chunk("IHDR", append(head, 8, 2, 0, 0, 0))
	chunk("IDAT", []byte{0x78, 0x9c, 1, 0, 0, 0xff, 0xff})
	chunk("IEND", nil)
	return b
}

// hostile returns files that are not usable pictures.
func hostile(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{
		"empty": {}, "one byte": {0xff}, "svg": []byte("<svg/>"), "xml": []byte("<?xml version='1.0'?><svg/>"), "html": []byte("<html>"),
		"pdf": []byte("%PDF-1.7"), "heic": []byte("\x00\x00\x00\x18ftypheic"), "text": []byte("just text"),
		"png of 0": bomb(0, 5), "png too wide": bomb(1<<17, 1), "png bomb": bomb(60000, 60000), "png of 2^31": bomb(1<<31-1, 1<<31-1),
		"png without pixels": bomb(5000, 6000), "a line": bomb(60000, 1), "gif head": []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"),
		"webp head": []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\xff\xff\xff\xff\x00"),
		"tiff loop": []byte("II*\x00\x08\x00\x00\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00"),
	}
	for name, data := range files(t) {
		for _, n := range []int{3, 20, len(data) / 3, len(data) / 2} {
			out[fmt.Sprintf("%s of %d bytes", name, n)] = data[:n]
		}
		for at := 8; at < min(len(data), 64); at += 7 {
			bad := bytes.Clone(data)
			bad[at] ^= 0xff
			out[fmt.Sprintf("%s with byte %d changed", name, at)] = bad
		}
	}
	return out
}

// TestHostile prepares hostile files. Each one gives an error of its class or a
// picture, and none takes much memory.
func TestHostile(t *testing.T) {
	tw := tower(t, "internvl")
	list := hostile(t)
	if len(list) < 60 {
		t.Fatalf("%d files", len(list))
	}
	for name, data := range list {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := tw.Prepare(data, vision.Limits{})
		runtime.ReadMemStats(&after)
		if err != nil && !errors.Is(err, vision.ErrImage) {
			t.Errorf("%s: %v is of no class", name, err)
		}
		changed := strings.Contains(name, "changed")
		if err == nil && !changed && !strings.Contains(name, "bytes") {
			t.Errorf("%s was taken for a picture", name)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 24*vision.MaxPixels {
			t.Errorf("%s took %d bytes", name, n)
		}
	}
}

// FuzzPrepare prepares random files.
func FuzzPrepare(f *testing.F) {
	for _, data := range hostile(f) {
		f.Add(data)
	}
	var towers []*vision.Tower
	for _, name := range []string{"internvl", "idefics3", "qwen2vl", "gemma3-f16"} {
		towers = append(towers, tower(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, tw := range towers {
			p, err := tw.Prepare(data, vision.Limits{})
			if err != nil {
				if !errors.Is(err, vision.ErrImage) {
					t.Fatal(err)
				}
				continue
			}
			for _, tile := range p.Tiles {
				if len(tile.Pixels) != 3*tile.Width*tile.Height || tile.Tokens < 1 {
					t.Fatalf("%d values for %d × %d pixels, %d tokens", len(tile.Pixels), tile.Width, tile.Height, tile.Tokens)
				}
			}
		}
	})
}
