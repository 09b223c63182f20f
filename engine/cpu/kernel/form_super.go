package kernel

// A block of the 256-column types has two-byte scales, byte-sized scales, and eight
// groups.

var formQ4_K = form{
	elems: 256, subs: 8, mins: true,
	first: 256, grp: 256, codes: nibblesOf,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			packK(dst, s, r)
			for sub := range 8 {
				nibblesK(dst[256+256*sub:], s[16:], sub, r)
			}
		}
	},
	scales: scalesK,
}

var formQ5_K = form{
	elems: 256, subs: 8, mins: true,
	first: 256, grp: 320, codes: nibblesOf, at: 64, bit: 4,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			packK(dst, s, r)
			for sub := range 8 {
				g := dst[256+320*sub:]
				put32(g[4*r:], planeK(s[16:], sub))
				nibblesK(g[64:], s[48:], sub, r)
			}
		}
	},
	scales: scalesK,
}

// packK packs d, dmin and the 12 bytes of 6-bit scales and minima.
func packK(dst, s []byte, r int) {
	copy16(dst, s, r)
	copy16(dst[32:], s[2:], r)
	spread(dst[64:], s[4:], r, 12)
}

// nibblesK merges the codes of a group of 32 columns. In the file they are the
// low nibbles (even group) or high nibbles (odd group) of 32 bytes that two
// groups share.
func nibblesK(dst, qs []byte, sub, r int) {
	qs = qs[sub/2*32 : sub/2*32+32]
	sh := sub % 2 * 4
	for j := range 4 {
		lo, hi := u32(qs[4*j:])>>sh, u32(qs[16+4*j:])>>sh
		put32(dst[64*j+4*r:], lo&0x0f0f0f0f|hi&0x0f0f0f0f<<4)
	}
}

// planeK collects bit sub of 32 bytes: bit k of byte i is column 4k+i.
func planeK(qh []byte, sub int) (p uint32) {
	for k := range 8 {
		p |= u32(qh[4*k:]) >> sub & 0x01010101 << k
	}
	return p
}

// crumbsK collects the 2-bit codes of 32 bytes at bit sh.
func crumbsK(dst, qs []byte, sh, r int) {
	for j := range 2 {
		var p uint32
		for k := range 4 {
			p |= u32(qs[16*j+4*k:]) >> sh & 0x03030303 << (2 * k)
		}
		put32(dst[64*j+4*r:], p)
	}
}

// scalesK unpacks the 6-bit scale and minimum of group sub.
func scalesK(blk []byte, sub, row int) scales {
	at := func(i int) uint8 { return blk[64+16*i+row] }
	var sc, m uint8
	if sub < 4 {
		sc, m = at(sub)&63, at(sub+4)&63
	} else {
		x := at(sub + 4)
		sc = x&15 | at(sub-4)>>6<<4
		m = x>>4 | at(sub)>>6<<4
	}
	return scales{d: same(f16(blk, row) * float32(sc)), m: same(-(f16(blk, 16+row) * float32(m)))}
}

var formQ6_K = form{
	elems: 256, subs: 8, halves: true,
	first: 288, grp: 384, codes: sixBits, offset: 32,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s[208:], r)
			spread(dst[32:], s[192:], r, 16)
			for sub := range 8 {
				ql, qh := s[sub/4*64+sub%2*32:], s[128+sub/4*32:]
				sh := sub % 4
				for h := range 2 {
					var c [4]uint32
					for k := range c {
						o := 16*h + 4*k
						c[k] = u32(ql[o:])>>(sh/2*4)&0x0f0f0f0f | u32(qh[o:])>>(2*sh)&0x03030303<<4
					}
					sixes(dst[288+384*sub+192*h:], &c, r)
				}
			}
		}
	},
	scales: func(blk []byte, sub, row int) (s scales) {
		d := f16(blk, row)
		for h := range s.d {
			s.d[h] = d * float32(int8(blk[32+16*(2*sub+h)+row]))
		}
		return s
	},
}

var formQ2_K = form{
	elems: 256, subs: 8, halves: true, mins: true,
	first: 320, grp: 128, codes: crumbs,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s[80:], r)
			copy16(dst[32:], s[82:], r)
			spread(dst[64:], s, r, 16)
			for sub := range 8 {
				crumbsK(dst[320+128*sub:], s[16+sub/4*32:], sub%4*2, r)
			}
		}
	},
	scales: func(blk []byte, sub, row int) (s scales) {
		d, dmin := f16(blk, row), f16(blk, 16+row)
		for h := range s.d {
			x := blk[64+16*(2*sub+h)+row]
			s.d[h], s.m[h] = d*float32(x&15), -(dmin * float32(x>>4))
		}
		return s
	},
}

var formQ3_K = form{
	elems: 256, subs: 8, halves: true,
	first: 224, grp: 192, codes: crumbs, plane: 128, bit: 2, offset: 4,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s[108:], r)
			spread(dst[32:], s[96:], r, 12)
			for sub := range 8 {
				g := dst[224+192*sub:]
				crumbsK(g, s[32+sub/4*32:], sub%4*2, r)
				put32(g[128+4*r:], planeK(s, sub))
			}
		}
	},
	scales: func(blk []byte, sub, row int) (s scales) {
		d := f16(blk, row)
		at := func(i int) uint8 { return blk[32+16*i+row] }
		for h := range s.d {
			k := 2*sub + h
			sc := at(k%8)>>(k/8*4)&15 | at(8+k%4)>>(k/4*2)&3<<4
			s.d[h] = d * float32(int(sc)-32)
		}
		return s
	},
}

var formIQ4_XS = form{
	elems: 256, subs: 8,
	first: 128, grp: 256, codes: nibblesOf, levels: &levelsNL,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s, r)
			spread(dst[32:], s[4:], r, 4) // the low four bits, two groups per byte
			spread(dst[96:], s[2:], r, 2) // the high two bits, four groups per byte
			for sub := range 8 {
				nibbles(dst[128+256*sub:], s[8+16*sub:], r)
			}
		}
	},
	scales: func(blk []byte, sub, row int) scales {
		sc := blk[32+16*(sub/2)+row]>>(sub%2*4)&15 | blk[96+16*(sub/4)+row]>>(sub%4*2)&3<<4
		return scales{d: same(f16(blk, row) * float32(int(sc)-32))}
	},
}
