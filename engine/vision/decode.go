package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"

	"godwit/engine/fault"
)

// ErrImage is wrapped by every error about an unusable picture. The error's
// text is the reason.
var ErrImage = errors.New("image")

// Limits of a picture, checked before its memory is allocated. Decoding takes at
// most 16 bytes per pixel.
const (
	MaxBytes  = 32 << 20 // maximum size of the file in bytes
	MaxPixels = 32 << 20 // maximum width times height
	maxSide   = 1 << 16
)

// rgb is a decoded picture with three bytes per pixel and rows from the top.
type rgb struct {
	w, h int
	pix  []byte
}

func newRGB(w, h int) *rgb { return &rgb{w, h, make([]byte, 3*w*h)} }

// format is a file format with its signature and its decoder.
type format struct {
	name   string
	begins func(b []byte) bool
	config func(r io.Reader) (image.Config, error)
	decode func(r io.Reader) (image.Image, error)
}

func prefix(p string) func([]byte) bool {
	return func(b []byte) bool { return bytes.HasPrefix(b, []byte(p)) }
}

var formats = []format{
	{"PNG", prefix("\x89PNG\r\n\x1a\n"), png.DecodeConfig, png.Decode},
	{"JPEG", prefix("\xff\xd8"), jpeg.DecodeConfig, jpeg.Decode},
	{"GIF", prefix("GIF8"), gif.DecodeConfig, gif.Decode},
	{"WebP", func(b []byte) bool { return len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP" }, webp.DecodeConfig, webp.Decode},
	{"BMP", prefix("BM"), bmp.DecodeConfig, bmp.Decode},
	{"TIFF", func(b []byte) bool { return prefix("II*\x00")(b) || prefix("MM\x00*")(b) }, tiff.DecodeConfig, tiff.Decode},
}

// decode reads a picture of any known format and applies its EXIF orientation.
func decode(data []byte) (*rgb, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrImage, len(data), MaxBytes)
	}
	f := formatOf(data)
	if f == nil {
		return nil, fmt.Errorf("%w: %s", ErrImage, unknown(data))
	}
	var img image.Image
	err := guard(func() error {
		c, err := f.config(bytes.NewReader(data))
		if err != nil {
			return err
		}
		if err := checkSize(c.Width, c.Height); err != nil {
			return err
		}
		if f.name == "WebP" {
			if err := checkWebP(data, c); err != nil {
				return err
			}
		}
		img, err = f.decode(bytes.NewReader(data))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s file: %w", ErrImage, f.name, err)
	}
	b := img.Bounds()
	if err := checkSize(b.Dx(), b.Dy()); err != nil {
		return nil, fmt.Errorf("%w: %s file: %w", ErrImage, f.name, err)
	}
	return flatten(img).upright(orientation(f.name, data)), nil
}

// guard turns a panic of a decoder on a damaged file into an error.
func guard(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file is damaged (%v)", r)
		}
	}()
	return fault.Guard(do)
}

func formatOf(data []byte) *format {
	for i := range formats {
		if formats[i].begins(data) {
			return &formats[i]
		}
	}
	return nil
}

// unknown describes a file whose format is not supported.
func unknown(data []byte) string {
	const known = "known formats are PNG, JPEG, GIF, WebP, BMP and TIFF"
	head := bytes.ToLower(bytes.TrimSpace(data[:min(len(data), 512)]))
	switch {
	case len(data) == 0:
		return "the file is empty"
	case bytes.Contains(head, []byte("<svg")) || bytes.HasPrefix(head, []byte("<?xml")):
		return "SVG is a drawing, not pixels; save it as PNG"
	case len(data) >= 12 && string(data[4:8]) == "ftyp":
		return "HEIC and AVIF are not supported; save it as JPEG"
	case bytes.HasPrefix(data, []byte("%PDF")):
		return "a PDF is not a picture; save the page as PNG"
	case bytes.HasPrefix(head, []byte("<")):
		return "this is a web page, not a picture"
	}
	return "unknown format; " + known
}

func checkSize(w, h int) error {
	switch {
	case w <= 0 || h <= 0:
		return fmt.Errorf("%d × %d pixels", w, h)
	case w > maxSide || h > maxSide:
		return fmt.Errorf("%d × %d pixels, at most %d on a side", w, h, maxSide)
	case w*h > MaxPixels:
		return fmt.Errorf("%d × %d pixels, at most %d in all", w, h, MaxPixels)
	}
	return nil
}

// checkWebP compares the size in each frame header with the size of the picture,
// because the decoder reserves memory for the frame.
func checkWebP(data []byte, c image.Config) error {
	for at := 12; at+8 <= len(data); {
		size := int(binary.LittleEndian.Uint32(data[at+4:]))
		body := data[at+8:]
		if size < len(body) {
			body = body[:size]
		}
		var w, h int
		switch string(data[at : at+4]) {
		case "VP8 ":
			if len(body) >= 10 {
				w, h = int(binary.LittleEndian.Uint16(body[6:]))&0x3fff, int(binary.LittleEndian.Uint16(body[8:]))&0x3fff
			}
		case "VP8L":
			if len(body) >= 5 {
				bits := int(binary.LittleEndian.Uint32(body[1:]))
				w, h = bits&0x3fff+1, bits>>14&0x3fff+1
			}
		}
		if w > 0 && (w != c.Width || h != c.Height) {
			return fmt.Errorf("a frame of %d × %d pixels in a picture of %d × %d", w, h, c.Width, c.Height)
		}
		if size > len(data) {
			break
		}
		at += 8 + size + size%2
	}
	return nil
}

// flatten converts to eight bits per channel. Transparency is dropped, so a pixel
// keeps its stored colour.
func flatten(img image.Image) *rgb {
	b := img.Bounds()
	out := newRGB(b.Dx(), b.Dy())
	set := func(i int, r, g, b uint8) { out.pix[i], out.pix[i+1], out.pix[i+2] = r, g, b }
	each := func(f func(i, x, y int)) {
		i := 0
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				f(i, x, y)
				i += 3
			}
		}
	}
	switch m := img.(type) {
	case *image.RGBA:
		each(func(i, x, y int) {
			c := m.RGBAAt(x, y)
			c2 := color.NRGBAModel.Convert(c).(color.NRGBA)
			set(i, c2.R, c2.G, c2.B)
		})
	case *image.NRGBA:
		each(func(i, x, y int) { c := m.NRGBAAt(x, y); set(i, c.R, c.G, c.B) })
	case *image.NRGBA64:
		each(func(i, x, y int) { c := m.NRGBA64At(x, y); set(i, uint8(c.R>>8), uint8(c.G>>8), uint8(c.B>>8)) })
	case *image.Gray:
		each(func(i, x, y int) { c := m.GrayAt(x, y); set(i, c.Y, c.Y, c.Y) })
	case *image.YCbCr:
		each(func(i, x, y int) {
			c := m.YCbCrAt(x, y)
			r, g, b := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
			set(i, r, g, b)
		})
	case *image.NYCbCrA:
		each(func(i, x, y int) {
			c := m.YCbCrAt(x, y)
			r, g, b := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
			set(i, r, g, b)
		})
	case *image.Paletted:
		palette := make([]color.NRGBA, len(m.Palette))
		for i, c := range m.Palette {
			palette[i] = unpremultiplied(c)
		}
		each(func(i, x, y int) {
			if k := int(m.ColorIndexAt(x, y)); k < len(palette) {
				set(i, palette[k].R, palette[k].G, palette[k].B)
			}
		})
	default:
		each(func(i, x, y int) { c := unpremultiplied(img.At(x, y)); set(i, c.R, c.G, c.B) })
	}
	return out
}

// unpremultiplied returns the stored colour of a pixel.
func unpremultiplied(c color.Color) color.NRGBA {
	if n, ok := c.(color.NRGBA); ok {
		return n
	}
	return color.NRGBAModel.Convert(c).(color.NRGBA)
}
