package cli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

type kvCmd struct {
	Types     kvTypesCmd     `cmd:"" help:"List the cache types."`
	Plan      kvPlanCmd      `cmd:"" help:"Show the cache memory of a context layer by layer, without loading the model."`
	Calibrate kvCalibrateCmd `cmd:"" help:"Measure the channels of a model's keys and the sensitivity of each cache, and save the calibration."`
	Encode    kvEncodeCmd    `cmd:"" help:"Pack float32 rows from standard input."`
	Decode    kvDecodeCmd    `cmd:"" help:"Decode packed rows from standard input to float32."`
}

type kvTypesCmd struct {
	JSON bool `name:"json" help:"Machine-readable output."`
}

// typeRow is a cache type in the output of kv types.
type typeRow struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Group   string   `json:"group"`
	Bits    float64  `json:"bits"`      // bits per value at head size kv.Nominal
	Ratio   float64  `json:"ratio_f16"` // size of f16 divided by the size of this type
	Note    string   `json:"note"`
}

func typeRows() []typeRow {
	var rows []typeRow
	for _, t := range kv.Types() {
		bits := t.NominalBits()
		rows = append(rows, typeRow{t.Name, append([]string{}, t.Aliases...), t.Group, bits, 16 / bits, t.Note})
	}
	return rows
}

// Run lists the types.
func (c *kvTypesCmd) Run(r *run) error {
	rows := typeRows()
	if c.JSON {
		return r.json(rows)
	}
	t := newTable("TYPE", "GROUP", "BITS", "x F16", "DESCRIPTION")
	for _, row := range rows {
		t.add(row.Name, row.Group, strconv.FormatFloat(row.Bits, 'f', -1, 64), fmt.Sprintf("%.2f", row.Ratio), row.Note)
	}
	if err := t.write(r.out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.out, "\nBits are for heads of %d values. Other head sizes may be padded or use another form; 'godwit kv plan' shows it.\n", kv.Nominal)
	return err
}

type kvPlanCmd struct {
	modelArg
	config.Engine
	Memory config.Size `placeholder:"SIZE" help:"Also print the largest context whose cache takes at most this much, such as 4GiB."`
	JSON   bool        `name:"json" help:"Machine-readable output."`
}

// Run prints the plan.
func (c *kvPlanCmd) Run(r *run) error {
	path, err := r.find(c.Model)
	if err != nil {
		return err
	}
	m, err := engine.OpenModel(path)
	if err != nil {
		return err
	}
	defer m.Close()
	o, err := r.options(&c.Engine, recorded)
	if err != nil {
		return err
	}
	if o, err = m.WithCalibration(o); errors.Is(err, layout.ErrCalibration) {
		r.log.Warn("calibration ignored", "err", err)
	} else if err != nil {
		return err
	}
	p, err := m.Planned(o, o.Free(path))
	if err != nil {
		return err
	}
	plan := p.Plan(r.modelName(path))
	if c.JSON {
		return r.json(plan)
	}
	if err := r.printPlan(&plan, p.Options.Parallel); err != nil || c.Memory == 0 {
		return err
	}
	_, err = fmt.Fprintf(r.out, "largest context in %v: %d tokens\n", c.Memory, p.Layout.LargestContext(int64(c.Memory)))
	return err
}

// exactPart describes how many of the given bytes hold exact rows, which are
// the first and the newest positions of every conversation.
func exactPart(l *layout.PlanLayer, bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%d+%d)", size(bytes), l.ExactSinks, l.ExactWindow)
}

// printPlan prints a plan as text, with equal layers on one line. Each parallel
// conversation has its own exact part.
func (r *run) printPlan(p *layout.Plan, parallel int) error {
	fmt.Fprintf(r.out, "%s, %d tokens of context, K %s, V %s\n\n", printable(p.Model), p.Ctx, p.Wanted.K, p.Wanted.V)
	t := newTable("LAYERS", "K", "V", "BYTES", "EXACT", "WINDOW", "REASON")
	var allExact int64
	for i := 0; i < len(p.Layers); {
		first := p.Layers[i]
		j := i
		var bytes, exact int64
		for ; j < len(p.Layers) && samePlan(p.Layers[j], first); j++ {
			bytes += p.Layers[j].K.Bytes + p.Layers[j].V.Bytes
			exact += p.Layers[j].K.ExactBytes + p.Layers[j].V.ExactBytes
		}
		allExact += exact
		name := strconv.Itoa(first.Layer)
		if j-i > 1 {
			name += "-" + strconv.Itoa(p.Layers[j-1].Layer)
		}
		window := ""
		if first.Window > 0 {
			window = strconv.Itoa(first.Window)
		}
		reason := first.K.Reason
		if first.V.Reason != "" && first.V.Reason != reason {
			if reason != "" {
				reason += "; "
			}
			reason += first.V.Reason
		}
		t.add(name, planSide(first.K), planSide(first.V), size(bytes), exactPart(&first, exact), window, reason)
		i = j
	}
	if err := t.write(r.out); err != nil {
		return err
	}
	for _, e := range p.Events {
		fmt.Fprintln(r.out, e)
	}
	if err := r.printSensitivity(p); err != nil {
		return err
	}
	if allExact > 0 {
		fmt.Fprintf(r.out, "\n%s in exact form, for %d conversations (-np)", size(allExact), parallel)
		if p.ExactAlone < allExact {
			fmt.Fprintf(r.out, "; with -np 1 it is %s", size(p.ExactAlone))
		}
		fmt.Fprintln(r.out)
	}
	if err := r.printAlong(p); err != nil {
		return err
	}
	if p.PassingBytes > 0 {
		fmt.Fprintf(r.out, "\n%s of exact pages for the prompt being read, shared by all layers\n", size(p.PassingBytes))
	}
	fmt.Fprintf(r.out, "\ncache %s", size(p.Bytes))
	switch ratio := float64(p.BytesF16) / float64(max(p.Bytes, 1)); {
	case ratio > 1.005:
		fmt.Fprintf(r.out, ", %.2f times less than f16 (%s)", ratio, size(p.BytesF16))
	case ratio < 0.995:
		fmt.Fprintf(r.out, ", %.2f times the size of f16 (%s)", 1/ratio, size(p.BytesF16))
	}
	if _, err := fmt.Fprintln(r.out); err != nil || p.Draft == nil {
		return err
	}
	fmt.Fprint(r.out, "\ndraft model: ")
	return r.printPlan(p.Draft, parallel)
}

// printAlong prints how many tokens are exact at several lengths, if the memory of
// a conversation decides its exact window.
func (r *run) printAlong(p *layout.Plan) error {
	const lines = 8
	if len(p.Along) == 0 {
		return nil
	}
	fmt.Fprintf(r.out, "\nmemory of one conversation: %s\n", size(p.Memory))
	t := newTable("TOKENS", "EXACT", "BYTES")
	for i := range lines {
		s := &p.Along[(i+1)*len(p.Along)/lines-1]
		t.add(strconv.Itoa(s.Tokens), strconv.Itoa(s.Exact), size(s.Bytes))
	}
	return t.write(r.out)
}

// printSensitivity prints how sensitive each cache is to fewer bits, if that was
// measured.
func (r *run) printSensitivity(p *layout.Plan) error {
	t := newTable("LAYER", "K", "COSTS", "V", "COSTS")
	some := false
	for i := range p.Layers {
		l := &p.Layers[i]
		if k, v := l.K.Sensitivity, l.V.Sensitivity; k > 0 || v > 0 {
			t.add(strconv.Itoa(l.Layer), l.K.Active, nats(k), l.V.Active, nats(v))
			some = true
		}
	}
	if !some {
		return nil
	}
	least, _ := layout.AutoRange()
	fmt.Fprintln(r.out)
	err := t.write(r.out)
	fmt.Fprintf(r.out, "divergence from f16, in nats, if only the named cache is packed at %g bits (used by --kv-auto)\n", least)
	return err
}

func samePlan(a, b layout.PlanLayer) bool {
	for _, s := range []*layout.PlanSide{&a.K, &a.V, &b.K, &b.V} {
		s.Sensitivity = 0 // sensitivities differ even between otherwise equal layers
	}
	return a.K == b.K && a.V == b.V && a.Window == b.Window && a.KVHeads == b.KVHeads
}

func planSide(s layout.PlanSide) string {
	name := s.Active
	switch {
	case s.Active == "":
		return "-"
	case s.Active != s.Wanted:
		name = s.Wanted + " -> " + s.Active
	}
	if s.Channels != "" {
		name += ", " + s.Channels
	}
	return name
}

// formFlags are the flags for an encoding and its parameters.
type formFlags struct {
	Type      string  `required:"" placeholder:"T" help:"Encoding, such as q8_0, without mapping or policy."`
	HeadDim   int     `required:"" name:"head-dim" placeholder:"D" help:"Number of values in a head."`
	Positions ids     `placeholder:"5,9" help:"Position of each row, for forms that store it. Default: the row's number."`
	RopeBase  float32 `name:"rope-base" default:"1e6" help:"RoPE base, for forms that need it."`
	Calib     string  `placeholder:"FILE" type:"existingfile" help:"Calibration file from kv calibrate. Its values for position 0 normalise the channels."`
	Layer     int     `name:"layer" placeholder:"N" help:"Layer to read from --calib."`
	KVHead    int     `name:"kv-head" placeholder:"N" help:"KV head to read from --calib."`

	channels *kv.Channels
}

// form checks the flags and returns the form.
func (f *formFlags) form() (*kv.Type, error) {
	t, err := kv.ParseForm(f.Type)
	if err != nil {
		return nil, usage{err}
	}
	if f.HeadDim < 1 {
		return nil, usage{fmt.Errorf("--head-dim must be at least 1, not %d", f.HeadDim)}
	}
	for _, p := range f.Positions {
		if p < 0 {
			return nil, usage{fmt.Errorf("--positions: %d is negative", p)}
		}
	}
	if b := float64(f.RopeBase); !(b > 0) || math.IsInf(b, 0) {
		return nil, usage{fmt.Errorf("--rope-base %g must be greater than 0", b)}
	}
	if f.Calib != "" {
		if f.channels, err = f.calibration(); err != nil {
			return nil, err
		}
	}
	return t.Hold(f.HeadDim)
}

// calibration reads the channels of one head from a calibration.
func (f *formFlags) calibration() (*kv.Channels, error) {
	file, err := os.Open(f.Calib)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := layout.ReadCalibration(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Calib, err)
	}
	head, err := c.Head(f.Layer, f.KVHead, f.HeadDim)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Calib, err)
	}
	channels := head.Channels(layout.Rotary{}, 0)
	return &channels, nil
}

// at returns the position information that an encoder needs for a row.
func (f *formFlags) at(row int) kv.At {
	pos := row
	if len(f.Positions) > 0 {
		pos = f.Positions[row]
	}
	return kv.At{Pos: pos, RopeBase: f.RopeBase, Channels: f.channels}
}

// rows calls do for every row of n bytes in in. If positions are given, there
// must be one for each row. That is checked first.
func (f *formFlags) rows(in io.Reader, n int, do func(row int, b []byte) error) error {
	if want := len(f.Positions); want > 0 {
		data, err := io.ReadAll(io.LimitReader(in, int64(n*want)+1))
		switch got := (len(data) + n - 1) / n; {
		case err != nil:
			return err
		case got > want:
			return usage{fmt.Errorf("--positions has %d entries, but the input has more rows", want)}
		case got < want:
			return usage{fmt.Errorf("--positions has %d entries, but the input has %d rows", want, got)}
		}
		in = bytes.NewReader(data)
	}
	buf := make([]byte, n)
	for row := 0; ; row++ {
		got, err := io.ReadFull(in, buf)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("row %d ends after %d of %d bytes", row, got, n)
		case err != nil:
			return err
		}
		if err := do(row, buf); err != nil {
			return err
		}
	}
}

type kvEncodeCmd struct{ formFlags }

// Run packs rows of D float32 values.
func (c *kvEncodeCmd) Run(r *run) error {
	t, err := c.form()
	if err != nil {
		return err
	}
	x, dst := make([]float32, c.HeadDim), make([]byte, t.RowBytes(c.HeadDim))
	saturated := 0
	err = c.rows(r.in, 4*c.HeadDim, func(row int, b []byte) error {
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		saturated += t.Encode(dst, x, c.at(row))
		_, err := r.out.Write(dst)
		return err
	})
	if saturated > 0 {
		r.log.Warn("infinite or NaN scales clamped", "blocks", saturated)
	}
	return err
}

type kvDecodeCmd struct {
	formFlags
	Rotated bool `help:"Do not undo the rotation."`
}

// Run unpacks rows to D float32 values.
func (c *kvDecodeCmd) Run(r *run) error {
	t, err := c.form()
	if err != nil {
		return err
	}
	n := c.HeadDim
	if c.Rotated {
		n = t.Padded(c.HeadDim)
	}
	x := make([]float32, n)
	return c.rows(r.in, t.RowBytes(c.HeadDim), func(row int, b []byte) error {
		if c.Rotated {
			t.DecodeRotated(x, b)
		} else {
			t.Decode(x, b, c.at(row))
		}
		var out [4]byte
		for _, v := range x {
			binary.LittleEndian.PutUint32(out[:], math.Float32bits(v))
			if _, err := r.out.Write(out[:]); err != nil {
				return err
			}
		}
		return nil
	})
}
