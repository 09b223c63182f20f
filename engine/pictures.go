package engine

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"godwit/engine/chat"
	"godwit/engine/llm"
	"godwit/engine/sched"
	"godwit/engine/tokenizer"
)

// ImageMarker stands for a picture in the text of a prompt.
const ImageMarker = chat.ImageMarker

// MaxImages is the maximum number of pictures in a request.
const MaxImages = 64

// ErrNoImages is wrapped by errors about pictures for a model without a projector.
var ErrNoImages = errors.New("this model reads text only")

// DefaultImageCache is the memory limit for the rows of encoded pictures.
const DefaultImageCache = 256 << 20

// seen is a picture that was encoded: its rows, and its tiles without pixels.
type seen struct {
	pic   *Picture
	rows  []float32
	files [][32]byte // hashes of files with these pixels
}

// pictures converts the pictures of requests to rows, one picture at a time, and
// keeps the rows. It is safe for concurrent use.
type pictures struct {
	p      *Projector
	limits ImageLimits
	budget int64

	turn chan struct{} // held while a picture is decoded and encoded, because its pixels take much memory

	mu      sync.Mutex
	byHash  map[[32]byte]*list.Element // values are *seen
	byFile  map[[32]byte]*list.Element
	recent  list.List // most recently used first
	bytes   int64
	encoded int64 // number of pictures that the tower has encoded
}

func newPictures(p *Projector, limits ImageLimits, budget int64) *pictures {
	if budget == 0 {
		budget = DefaultImageCache
	}
	return &pictures{
		p: p, limits: limits, budget: budget, turn: make(chan struct{}, 1),
		byHash: map[[32]byte]*list.Element{}, byFile: map[[32]byte]*list.Element{},
	}
}

// get returns a picture's rows, from memory if possible. Rows of a private picture are not
// kept.
func (s *pictures) get(ctx context.Context, file []byte, private bool, progress func(share float64)) (*seen, error) {
	name := sha256.Sum256(file)
	if x := s.find(s.byFile, name); x != nil {
		return x, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x := s.find(s.byFile, name); x != nil { // another request has encoded it in the meantime
		return x, nil
	}
	pic, err := s.p.Prepare(file, s.limits)
	if err != nil {
		return nil, err
	}
	if x := s.find(s.byHash, pic.Hash); x != nil {
		return x, nil
	}
	rows, err := s.p.Encode(ctx, pic, progress)
	if err != nil {
		return nil, err
	}
	for i := range pic.Tiles {
		pic.Tiles[i].Pixels = nil
	}
	x := &seen{pic: pic, rows: rows, files: [][32]byte{name}}
	s.keep(x, private)
	return x, nil
}

func (s *pictures) find(in map[[32]byte]*list.Element, key [32]byte) *seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := in[key]
	if e == nil {
		return nil
	}
	s.recent.MoveToFront(e)
	return e.Value.(*seen)
}

// keep stores a picture and drops the least recently used ones beyond the budget.
func (s *pictures) keep(x *seen, private bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.encoded++
	if private || s.byHash[x.pic.Hash] != nil {
		return
	}
	e := s.recent.PushFront(x)
	s.byHash[x.pic.Hash] = e
	for _, f := range x.files {
		s.byFile[f] = e
	}
	s.bytes += int64(4 * len(x.rows))
	for s.bytes > s.budget && s.recent.Len() > 0 {
		last := s.recent.Back()
		old := s.recent.Remove(last).(*seen)
		delete(s.byHash, old.pic.Hash)
		for _, f := range old.files {
			delete(s.byFile, f)
		}
		s.bytes -= int64(4 * len(old.rows))
	}
}

// count returns the number of pictures that the tower has encoded.
func (s *pictures) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.encoded
}

// rowToken returns the id of a picture's row: a negative hash of the pixels and the
// row number. Two prefixes are thus equal only if their pictures are equal.
func rowToken(hash [32]byte, row int) llm.Token {
	var b [40]byte
	copy(b[:], hash[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(row))
	sum := sha256.Sum256(b[:])
	return -1 - llm.Token(binary.LittleEndian.Uint32(sum[:])&0x7ffffffe)
}

// promptText is a tokenised prompt with the tiles of its pictures.
type promptText struct {
	tokens []llm.Token
	tiles  []sched.Tile
}

// tokenise converts the texts around pictures to tokens, each separately. There is
// one text more than there are pictures.
func (s *pictures) tokenise(t *tokenizer.Tokenizer, texts [][]tokenizer.Piece, pics []*seen) promptText {
	var out promptText
	text := func(pieces []tokenizer.Piece) {
		o := tokenizer.Options{AddBOS: len(out.tokens) == 0, ParseSpecial: true}
		out.tokens = t.Encode(out.tokens, pieces, o)
	}
	text(texts[0])
	for i, x := range pics {
		around := s.p.Texts(x.pic.Tiles)
		at, n := 0, 0 // at: rows of the picture so far; n: values of a row
		for k := range x.pic.Tiles {
			tile := &x.pic.Tiles[k]
			if around[k] != "" {
				text([]tokenizer.Piece{{Text: around[k], Trusted: true}})
			}
			n = s.p.Width
			p := sched.Tile{
				At: len(out.tokens), Count: tile.Tokens, Span: s.p.Positions(tile), Whole: s.p.Whole,
				Rows: x.rows[at*n : (at+tile.Tokens)*n],
			}
			if s.p.Grid {
				p.Coords = s.p.Coords(tile)
			}
			for r := range tile.Tokens {
				out.tokens = append(out.tokens, rowToken(x.pic.Hash, at+r))
			}
			at += tile.Tokens
			out.tiles = append(out.tiles, p)
		}
		if last := around[len(around)-1]; last != "" {
			text([]tokenizer.Piece{{Text: last, Trusted: true}})
		}
		if len(texts[i+1]) > 0 {
			text(texts[i+1])
		}
	}
	return out
}

// cutAtImages cuts the pieces of a prompt at the image markers of the template. A marker
// that a user typed stays text.
func cutAtImages(pieces []tokenizer.Piece) [][]tokenizer.Piece {
	out := [][]tokenizer.Piece{nil}
	add := func(p tokenizer.Piece) {
		if p.Text != "" {
			out[len(out)-1] = append(out[len(out)-1], p)
		}
	}
	for _, p := range pieces {
		if !p.Trusted {
			add(p)
			continue
		}
		for i, part := range strings.Split(p.Text, ImageMarker) {
			if i > 0 {
				out = append(out, nil)
			}
			add(tokenizer.Piece{Text: part, Trusted: true})
		}
	}
	return out
}

// illustrate tokenises pieces and inserts pictures at their markers.
func (e *Engine) illustrate(ctx context.Context, pieces []tokenizer.Piece, images [][]byte, private bool, progress func(n int, share float64)) (promptText, error) {
	texts := cutAtImages(pieces)
	if e.pictures == nil && len(images)+len(texts) > 1 {
		return promptText{}, fmt.Errorf("%w: %w", ErrRequest, e.model.TextOnly())
	}
	if len(images) > MaxImages {
		return promptText{}, fmt.Errorf("%w: %d pictures are too many; the limit is %d", ErrRequest, len(images), MaxImages)
	}
	t, err := e.model.Tokenizer()
	if err != nil {
		return promptText{}, err
	}
	if len(texts) != len(images)+1 {
		return promptText{}, fmt.Errorf("%w: the prompt has %d markers %s, but there are %d pictures", ErrRequest, len(texts)-1, ImageMarker, len(images))
	}
	var list []*seen
	for i, file := range images {
		var told func(share float64)
		if progress != nil {
			told = func(share float64) { progress(i, share) }
		}
		x, err := e.pictures.get(ctx, file, private, told)
		if err != nil {
			if errors.Is(err, ErrImage) {
				err = fmt.Errorf("%w: picture %d: %w", ErrRequest, i+1, err)
			}
			return promptText{}, err
		}
		list = append(list, x)
	}
	return e.pictures.tokenise(t, texts, list), nil
}

// CheckImage decodes and resizes a picture. It returns an error if the picture
// cannot be used.
func (e *Engine) CheckImage(file []byte) error {
	if e.pictures == nil {
		return e.model.TextOnly()
	}
	_, err := e.pictures.p.Prepare(file, e.pictures.limits)
	return err
}

// TextOnly returns the error for a request that sends a picture to a model without
// a projector.
func (m *Model) TextOnly() error {
	return fmt.Errorf("%w: %s has no projector; a model that has one is listed with the capability \"vision\", and --mmproj FILE or a file mmproj-*.gguf beside the model adds one", ErrNoImages, m.Config().Name)
}

// Images reports whether the engine reads pictures.
func (e *Engine) Images() bool { return e.pictures != nil }

// ImagesEncoded returns the number of pictures that the tower has encoded. Rows
// from memory do not count.
func (e *Engine) ImagesEncoded() int64 {
	if e.pictures == nil {
		return 0
	}
	return e.pictures.count()
}

// LogitsOf is Logits for a text with pictures. Special tokens in the text are
// parsed, the first token is BOS if the model has one, and each ImageMarker is
// replaced by a picture. Positions count tokens of the text and rows of the
// pictures. If positions is empty, it returns the logits of the last position.
func (e *Engine) LogitsOf(ctx context.Context, text string, images [][]byte, positions []int, step bool) ([]float32, error) {
	p, err := e.illustrate(ctx, []tokenizer.Piece{{Text: text, Trusted: true}}, images, false, nil)
	if err != nil {
		return nil, err
	}
	if len(p.tokens) == 0 {
		return nil, fmt.Errorf("%w: the text is empty", ErrRequest)
	}
	if len(positions) == 0 {
		positions = []int{len(p.tokens) - 1}
	}
	where, err := places(positions, len(p.tokens))
	if err != nil {
		return nil, err
	}
	vocab := e.p.width()
	out := make([]float32, len(positions)*vocab)
	left := make(map[int]bool)
	for pos := range where {
		left[pos] = true
	}
	for len(left) > 0 { // several runs, because the rows of a tile are read in one step, which has few outputs
		now := make(map[int]bool)
		for pos := range left {
			if len(now) < outputs-1 {
				now[pos] = true
			}
		}
		err := e.wait(ctx, sched.Job{
			Prompt: p.tokens, Tiles: p.tiles, Fresh: true, OneByOne: step, Slot: -1,
			Want: func(pos int) bool { return now[pos] },
			Row: func(pos int, row []float32) error {
				for _, i := range where[pos] {
					copy(out[i*vocab:], row)
				}
				return nil
			},
		})
		if err != nil {
			return nil, err
		}
		for pos := range now {
			delete(left, pos)
		}
	}
	return out, nil
}

// fetch returns the files behind the URLs of pictures.
func (r *Request) fetch(ctx context.Context, urls []string) ([][]byte, error) {
	if len(urls) > MaxImages {
		return nil, fmt.Errorf("%w: %d pictures are too many; the limit is %d", ErrRequest, len(urls), MaxImages)
	}
	var out [][]byte
	for i, url := range urls {
		data, err := r.file(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("%w: picture %d: %w", ErrRequest, i+1, err)
		}
		out = append(out, data)
	}
	return out, nil
}

// file reads a data: URL, and fetches any other.
func (r *Request) file(ctx context.Context, url string) ([]byte, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	switch {
	case !ok && r.Fetch == nil:
		return nil, fmt.Errorf("%w: only data: URLs are read (--allow-image-urls reads others)", ErrImage)
	case !ok:
		return r.Fetch(ctx, url)
	}
	kind, body, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, fmt.Errorf("%w: the data: URL has no comma", ErrImage)
	}
	if !strings.HasSuffix(kind, ";base64") {
		return nil, fmt.Errorf("%w: the data: URL is not base64", ErrImage)
	}
	return DecodeImage(body)
}

// DecodeImage decodes the file of a picture from base64, with or without padding.
func DecodeImage(text string) ([]byte, error) {
	text = strings.TrimRight(strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', ' ', '\t':
			return -1
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, text), "=")
	if base64.RawStdEncoding.DecodedLen(len(text)) > MaxImageBytes {
		return nil, fmt.Errorf("%w: the file has %d bytes; the limit is %d", ErrImage, base64.RawStdEncoding.DecodedLen(len(text)), MaxImageBytes)
	}
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: not base64: %w", ErrImage, err)
	}
	return data, nil
}
