package kv

// putStream writes codes of the given width one after another, least
// significant bit first. dst is overwritten up to the last code.
func putStream(dst []byte, codes []uint8, bits int) {
	var acc uint32
	n, k := 0, 0
	for _, c := range codes {
		acc |= uint32(c) << n
		n += bits
		for n >= 8 {
			dst[k] = byte(acc)
			acc >>= 8
			n -= 8
			k++
		}
	}
	if n > 0 {
		dst[k] = byte(acc)
	}
}

// stream reads codes that putStream wrote.
func stream(codes []uint8, src []byte, bits int) {
	var acc uint32
	n, k := 0, 0
	mask := uint32(1)<<bits - 1
	for i := range codes {
		for n < bits {
			acc |= uint32(src[k]) << n
			n += 8
			k++
		}
		codes[i] = uint8(acc & mask)
		acc >>= bits
		n -= bits
	}
}

// pack writes the codes of one block, len(codes) = Elems, into its bytes.
func (c *Codes) pack(block []byte, codes []uint8) {
	switch c.Packing {
	case Stream:
		putStream(block[c.At:], codes, c.Bits)
	case Planes:
		var low, high [maxBlock]uint8
		for i, v := range codes {
			low[i], high[i] = v&3, v>>2
		}
		putStream(block[c.At:], low[:len(codes)], 2)
		putStream(block[c.High:], high[:len(codes)], 1)
	case Halves:
		half := len(codes) / 2
		for j := range half {
			block[c.At+j] = codes[j]&15 | codes[j+half]<<4
		}
		if c.Bits > 4 {
			var high [maxBlock]uint8
			for i, v := range codes {
				high[i] = v >> 4
			}
			putStream(block[c.High:], high[:len(codes)], 1)
		}
	case Int8:
		copy(block[c.At:], codes)
	case Cyclic:
		putWindows(block[c.At:], codes, c.Bits)
	default:
		panic("kv: packing has no writer")
	}
}

// unpack reads the codes of one block.
func (c *Codes) unpack(codes []uint8, block []byte) {
	switch c.Packing {
	case Stream:
		stream(codes, block[c.At:], c.Bits)
	case Planes:
		var high [maxBlock]uint8
		stream(codes, block[c.At:], 2)
		stream(high[:len(codes)], block[c.High:], 1)
		for i := range codes {
			codes[i] |= high[i] << 2
		}
	case Halves:
		half := len(codes) / 2
		for j := range half {
			b := block[c.At+j]
			codes[j], codes[j+half] = b&15, b>>4
		}
		if c.Bits > 4 {
			var high [maxBlock]uint8
			stream(high[:len(codes)], block[c.High:], 1)
			for i := range codes {
				codes[i] |= high[i] << 4
			}
		}
	case Int8:
		copy(codes, block[c.At:c.At+len(codes)])
	case Cyclic:
		windows(codes, block[c.At:], c.Bits)
	default:
		panic("kv: packing has no reader")
	}
}

// level is the value of a code before the scale.
func (c *Codes) level(code uint8) float32 {
	if c.Levels == nil {
		return float32(int8(code))
	}
	return c.Levels[code]
}

// code returns the index of the first boundary strictly greater than v, or the
// last code if no boundary is. NaN therefore gets the last code.
func (c *Codes) code(v float32) uint8 {
	for i, b := range c.Boundaries {
		if b > v {
			return uint8(i)
		}
	}
	return uint8(len(c.Boundaries))
}
