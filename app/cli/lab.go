package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/eval"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// labFlags are the flags of measurements whose results are saved.
type labFlags struct {
	evalFlags
	Quick bool `help:"Measure less. This takes minutes on a small model, and the errors are larger."`
	Fresh bool `help:"Repeat measurements that an earlier run has finished."`
}

// presetPairs returns the presets' pairs for a model, plus 8 bits for both sides.
func presetPairs(l *labRun) ([]kv.Pair, error) {
	layers, err := l.model.Layers(l.model.Config().Context)
	if err != nil {
		return nil, err
	}
	list := []kv.Pair{{K: kv.F16.Name, V: kv.F16.Name}, {K: kv.Q8_0.Name, V: kv.Q8_0.Name}}
	for _, p := range layout.Presets() {
		w, err := layout.PresetWant(p.Name, layers)
		if err != nil {
			return nil, err
		}
		list = append(list, kv.Pair{K: w.K.Name, V: w.V.Name})
	}
	return list, nil
}

// labRun is a lab and the description of its model.
type labRun struct {
	*eval.Lab
	model *engine.Model
	path  string
	close func() error
	leave func() error // ends the lab but keeps f16's log-probabilities
}

// lab opens the lab of a model and shows its progress.
func (f *labFlags) lab(r *run) (*labRun, error) {
	l, err := f.silentLab(r)
	if err != nil {
		return nil, err
	}
	tell, done := r.labProgress(f.Model)
	end := l.close
	l.Progress, l.close = tell, func() error { done(); return end() }
	leave := l.leave
	l.leave = func() error { done(); return leave() }
	return l, nil
}

// silentLab opens the lab of a model.
func (f *labFlags) silentLab(r *run) (*labRun, error) {
	path, err := r.find(f.Model)
	if err != nil {
		return nil, err
	}
	text, err := f.source()
	if err != nil {
		return nil, err
	}
	m, err := engine.OpenModel(path)
	if err != nil {
		return nil, err
	}
	l := &eval.Lab{
		Open: f.opener(r), Base: f.base(r), Context: m.Config().Context, Text: text, Size: eval.Full(), SkipUnable: true,
		Store: eval.OpenResults(filepath.Join(r.home.Data, "quality"), m.File.Identity()), Fresh: f.Fresh,
	}
	f.Backend = r.backend(f.Backend, wait) // results are stored by backend
	l.Setup, err = labSetup(f.Engine)
	if err == nil {
		l.BaseSetup, err = labSetup(f.PlainCache())
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if f.Quick {
		l.Size = eval.Quick()
	}
	return &labRun{l, m, path, func() error { return errors.Join(l.Close(), m.Close()) }, m.Close}, nil
}

// labSetup returns all settings that affect results, except the types and the
// sizes.
func labSetup(set config.Engine) (string, error) {
	set.CacheTypeK, set.CacheTypeV, set.KVPreset, set.CtxSize, set.Parallel, set.KVCells = "", "", "", 0, 0, 0
	b := newBuildInfo()
	setup, err := json.Marshal([]any{set, b.Version, b.Commit, b.System, b.CPU})
	return string(setup), err
}

// labProgress shows the progress of a lab, as a bar on a terminal, and
// otherwise as one line per cell.
func (r *run) labProgress(model string) (tell func(eval.Progress), done func()) {
	b := r.bar("measuring", model)
	last := ""
	return func(p eval.Progress) {
		what := fmt.Sprintf("%s %v", p.Task, p.Pair)
		left := ""
		if p.Left > 0 {
			left = fmt.Sprintf(", about %v left", p.Left.Round(time.Second))
		}
		switch {
		case b.p != nil:
			b.p.Describe(what + left)
			_ = b.share(p.Share)
		case what != last:
			fmt.Fprintf(r.err, "%s: %.0f %%%s\n", what, 100*p.Share, left)
		}
		last = what
	}, b.close
}

// only returns the cells of the requested pairs.
func only(cells []eval.Cell, pairs []kv.Pair) []eval.Cell {
	var out []eval.Cell
	for _, c := range cells {
		for _, p := range pairs {
			if c.K == p.K && c.V == p.V {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// task runs one task and prints the results. pick returns a cell's result.
func (f *labFlags) task(r *run, t eval.Task, size func(*eval.Size), pick func(*eval.Cell) any) (err error) {
	l, err := f.lab(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	pairs, err := f.pairs()
	if err != nil {
		return err
	}
	if len(pairs) == 0 {
		want, err := l.preset(f.KVPreset)
		if err != nil {
			return err
		}
		pairs = []kv.Pair{want}
	}
	size(&l.Size)
	l.SkipUnable = false // the user requested exactly this task
	cells, err := l.Run(r.ctx, []eval.Task{t}, pairs)
	if err != nil {
		return err
	}
	cells = only(cells, pairs)
	if f.JSON {
		var list []any
		for i := range cells {
			if res := pick(&cells[i]); res != nil {
				list = append(list, res)
			} else {
				list = append(list, cells[i])
			}
		}
		err = r.oneOrList(len(list), list, func(i int) any { return list[i] })
	} else {
		err = r.printReport(&eval.Report{Cells: cells})
	}
	measured := func(c eval.Cell) bool { return pick(&c) != nil }
	if err == nil && len(cells) > 0 && !slices.ContainsFunc(cells, measured) {
		err = fmt.Errorf("nothing was measured: %s", cells[0].Note)
	}
	return err
}

// preset returns the pair of a preset.
func (l *labRun) preset(name string) (kv.Pair, error) {
	layers, err := l.model.Layers(l.Context)
	if err != nil {
		return kv.Pair{}, err
	}
	w, err := layout.PresetWant(name, layers)
	if err != nil {
		return kv.Pair{}, usage{err}
	}
	return kv.Pair{K: w.K.Name, V: w.V.Name}, nil
}

// printReport prints the table and the remarks.
func (r *run) printReport(rep *eval.Report) error {
	lines := rep.Table(true)
	t := newTable(lines[0]...)
	for _, line := range lines[1:] {
		t.add(line...)
	}
	if err := t.write(r.out); err != nil {
		return err
	}
	for _, n := range rep.Notes() {
		fmt.Fprintln(r.out, printable(n))
	}
	return nil
}

type evalCopyCmd struct {
	labFlags
	Distances ids `placeholder:"200,1000" help:"Distance in tokens."`
	Items     int `placeholder:"N" help:"Number of texts per distance."`
}

// Run measures exact copying.
func (c *evalCopyCmd) Run(r *run) error {
	if err := notNegative("--distances", c.Distances); err != nil {
		return err
	}
	return c.task(r, eval.TaskCopy, func(s *eval.Size) {
		s.Distances, s.CopyItems = given(c.Distances, s.Distances), positive(c.Items, s.CopyItems)
	}, func(c *eval.Cell) any { return result(c.Copy) })
}

type evalNeedleCmd struct {
	labFlags
	Lengths ids       `placeholder:"512,4096" help:"Lengths of the text in tokens."`
	Depths  []float64 `placeholder:"0,0.5,1" help:"Positions in the text, from 0 to 1."`
	Shared  bool      `help:"Run only the test that puts the facts of all depths into one text. It processes each length once instead of once per depth."`
	Trials  int       `placeholder:"N" help:"Number of texts of each kind."`
}

// Run measures retrieval.
func (c *evalNeedleCmd) Run(r *run) error {
	if err := notNegative("--lengths", c.Lengths); err != nil {
		return err
	}
	if len(c.Depths) > eval.MaxDepths {
		return usage{fmt.Errorf("--depths has %d values; the limit is %d", len(c.Depths), eval.MaxDepths)}
	}
	for _, d := range c.Depths {
		if !(d >= 0 && d <= 1) {
			return usage{fmt.Errorf("--depths: %g is not between 0 and 1", d)}
		}
	}
	return c.task(r, eval.TaskNeedle, func(s *eval.Size) {
		s.Lengths, s.Trials, s.Shared = given(c.Lengths, s.Lengths), positive(c.Trials, s.Trials), c.Shared
		if len(c.Depths) > 0 {
			s.Depths = c.Depths
		}
	}, func(c *eval.Cell) any { return result(c.Needle) })
}

type evalArithCmd struct {
	labFlags
	Items  int `placeholder:"N" help:"Number of sums."`
	Behind ids `placeholder:"0,2000" help:"Tokens of text before the sums."`
}

// Run measures arithmetic.
func (c *evalArithCmd) Run(r *run) error {
	if err := notNegative("--behind", c.Behind); err != nil {
		return err
	}
	return c.task(r, eval.TaskArith, func(s *eval.Size) {
		s.Sums, s.SumDepths = positive(c.Items, s.Sums), given(c.Behind, s.SumDepths)
	}, func(c *eval.Cell) any { return result(c.Arith) })
}

type evalTurnsCmd struct {
	labFlags
	Turns int `placeholder:"N" help:"Turns of the chat, at most 10."`
	Limit int `short:"n" placeholder:"N" help:"Maximum tokens of an answer."`
}

// Run measures a chat.
func (c *evalTurnsCmd) Run(r *run) error {
	return c.task(r, eval.TaskTurns, func(s *eval.Size) {
		s.Turns, s.TurnTokens = min(positive(c.Turns, s.Turns), 10), positive(c.Limit, s.TurnTokens)
	}, func(c *eval.Cell) any { return result(c.Turns) })
}

type evalSpeedCmd struct {
	labFlags
	Depths ids `short:"d" placeholder:"0,8192" help:"Tokens already in the context."`
	Repeat int `short:"r" name:"repetitions" placeholder:"N" help:"Number of timed runs."`
}

// Run measures speed and memory.
func (c *evalSpeedCmd) Run(r *run) error {
	if err := notNegative("--depths", c.Depths); err != nil {
		return err
	}
	c.Fresh = true // speeds depend on the current load of the machine
	return c.task(r, eval.TaskSpeed, func(s *eval.Size) {
		s.SpeedDepths, s.SpeedRuns = given(c.Depths, s.SpeedDepths), positive(c.Repeat, s.SpeedRuns)
	}, func(c *eval.Cell) any { return result(c.Speed) })
}

// result converts a pointer to an interface, and a nil pointer to a nil
// interface.
func result[T any](p *T) any {
	if p == nil {
		return nil
	}
	return p
}

// notNegative rejects negative token counts.
func notNegative(flag string, list ids) error {
	for _, n := range list {
		if n < 0 {
			return usage{fmt.Errorf("%s: %d tokens", flag, n)}
		}
	}
	return nil
}

func given(list ids, otherwise []int) []int {
	if len(list) > 0 {
		return list
	}
	return otherwise
}

func positive(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

type evalAllCmd struct {
	labFlags
	Out string `type:"path" placeholder:"FOLDER" help:"Folder for the report. Default: the model's results in the data folder."`
}

// Run measures everything and writes the report.
func (c *evalAllCmd) Run(r *run) (err error) {
	l, err := c.lab(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	pairs, err := c.pairs()
	if err == nil && len(pairs) == 0 {
		if pairs = kv.Pairs(); c.Quick {
			pairs, err = presetPairs(l)
		}
	}
	if err != nil {
		return err
	}
	dir := c.Out
	if dir == "" {
		dir = l.Store.Dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // created before the measurements, so that an error costs no time
		return err
	}
	cells, err := l.Run(r.ctx, eval.Tasks(), pairs)
	if err != nil {
		return fmt.Errorf("%w; finished results are saved, and the same command continues from there", err)
	}
	rep := c.report(r, l, cells)
	if err := writeReport(dir, rep); err != nil {
		return err
	}
	fmt.Fprintf(r.err, "report: %s\n", filepath.Join(dir, "report.html"))
	if c.JSON {
		return r.json(rep)
	}
	return r.printReport(rep)
}

// report describes the setup of the measurements.
func (f *labFlags) report(r *run, l *labRun, cells []eval.Cell) *eval.Report {
	cfg := l.model.Config()
	text := f.Text
	if f.File != "" {
		text = filepath.Base(f.File)
	}
	args := os.Args[slices.Index(os.Args, "eval")+1:]
	command := "godwit eval " + strings.Join(args, " ")
	return &eval.Report{
		Model: r.modelName(l.path), Arch: cfg.Arch, Identity: fmt.Sprintf("%x", l.model.File.Identity()),
		Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Command: strings.ReplaceAll(command, l.path, filepath.Base(l.path)), Text: text, Size: l.Size, Cells: cells,
	}
}

// writeReport writes the report in three forms.
func writeReport(dir string, rep *eval.Report) error {
	for name, write := range map[string]func(*os.File) error{
		"report.json": func(f *os.File) error { e := json.NewEncoder(f); e.SetIndent("", "\t"); return e.Encode(rep) },
		"report.csv":  func(f *os.File) error { return rep.CSV(f) },
		"report.html": func(f *os.File) error { return rep.HTML(f) },
	} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
