package vision

import (
	"bytes"
	"encoding/binary"
)

// orientationTag is the tag number of EXIF's orientation.
const orientationTag = 0x112

// orientation returns the EXIF orientation of a picture, from 1 (upright) to 8.
// It returns 1 for data that cannot be parsed.
func orientation(format string, data []byte) int {
	var block []byte
	switch format {
	case "JPEG":
		block = jpegEXIF(data)
	case "PNG":
		block = pngEXIF(data)
	case "WebP":
		block = webpEXIF(data)
	case "TIFF":
		block = data
	}
	if n := tiffOrientation(block); n >= 1 && n <= 8 {
		return n
	}
	return 1
}

// jpegEXIF finds the APP1 segment before the first scan.
func jpegEXIF(data []byte) []byte {
	for at := 2; at+4 <= len(data) && data[at] == 0xff; {
		marker := data[at+1]
		if marker == 0xff { // padding
			at++
			continue
		}
		if marker == 0xda || marker == 0xd9 {
			return nil
		}
		size := int(binary.BigEndian.Uint16(data[at+2:]))
		if size < 2 || at+2+size > len(data) {
			return nil
		}
		if body := data[at+4 : at+2+size]; marker == 0xe1 {
			if b, ok := bytes.CutPrefix(body, []byte("Exif\x00\x00")); ok {
				return b
			}
		}
		at += 2 + size
	}
	return nil
}

func pngEXIF(data []byte) []byte {
	for at := 8; at+12 <= len(data); {
		size := int(binary.BigEndian.Uint32(data[at:]))
		if size < 0 || size > len(data)-at-12 {
			return nil
		}
		if string(data[at+4:at+8]) == "eXIf" {
			return data[at+8 : at+8+size]
		}
		at += 12 + size
	}
	return nil
}

func webpEXIF(data []byte) []byte {
	for at := 12; at+8 <= len(data); {
		size := int(binary.LittleEndian.Uint32(data[at+4:]))
		if size > len(data)-at-8 {
			return nil
		}
		if body := data[at+8 : at+8+size]; string(data[at:at+4]) == "EXIF" {
			return bytes.TrimPrefix(body, []byte("Exif\x00\x00"))
		}
		at += 8 + size + size%2
	}
	return nil
}

// tiffOrientation reads the orientation tag in the first directory of a TIFF
// structure. It returns 0 if there is no such tag.
func tiffOrientation(b []byte) int {
	if len(b) < 8 {
		return 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(b[:2]) {
	case "II":
	case "MM":
		order = binary.BigEndian
	default:
		return 0
	}
	at := int(order.Uint32(b[4:]))
	if at < 8 || at > len(b)-2 {
		return 0
	}
	n := int(order.Uint16(b[at:]))
	for i := range n {
		e := at + 2 + 12*i
		if e+12 > len(b) {
			return 0
		}
		if order.Uint16(b[e:]) == orientationTag && order.Uint16(b[e+2:]) == 3 {
			return int(order.Uint16(b[e+8:]))
		}
	}
	return 0
}

// upright rotates and mirrors a picture according to its EXIF orientation.
func (p *rgb) upright(orientation int) *rgb {
	if orientation <= 1 {
		return p
	}
	out := newRGB(p.w, p.h)
	if orientation >= 5 {
		out.w, out.h = p.h, p.w
	}
	for y := range out.h {
		for x := range out.w {
			sx, sy := x, y
			switch orientation {
			case 2:
				sx = p.w - 1 - x
			case 3:
				sx, sy = p.w-1-x, p.h-1-y
			case 4:
				sy = p.h - 1 - y
			case 5:
				sx, sy = y, x
			case 6:
				sx, sy = y, p.h-1-x
			case 7:
				sx, sy = p.w-1-y, p.h-1-x
			case 8:
				sx, sy = p.w-1-y, x
			}
			copy(out.pix[3*(y*out.w+x):][:3], p.pix[3*(sy*p.w+sx):][:3])
		}
	}
	return out
}
