package eval

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
)

// page is the report as one self-contained file.
var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Cache types on {{.Report.Model}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td{white-space:nowrap}td,th{padding:.2rem .45rem;text-align:right;border-bottom:1px solid #ddd}
td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}svg{max-width:100%;height:auto;font:12px system-ui,sans-serif}
.wide{overflow-x:auto}figure{margin:2rem 0}figcaption{color:#555}code{font-size:13px}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td,th{border-color:#444}figcaption{color:#aaa}svg{background:#eee;color:#222}}
</style></head><body>
<h1>What cache types cost on {{.Report.Model}}</h1>
<p>{{.Report.Arch}} on {{.Report.Machine}}; text: {{.Report.Text}}; {{.Report.Size.Chunks}} windows of {{.Report.Size.Window}} tokens, {{.Report.Size.Agree}} decoded tokens.<br><code>{{.Report.Command}}</code></p>
<div class="wide"><table><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr>
{{range .Lines}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table></div>
<p>KLD: mean divergence from f16 in nats, with its standard error. agree: share of decoded tokens chosen as f16 chooses. copy, needle, arith: share of exact answers. turns: share of each answer of a chat that begins as f16's; repeats: 8-grams of an answer that it had before.</p>
{{range .Notes}}<p>{{.}}</p>{{end}}
{{range .Figures}}<figure>{{.Plot}}<figcaption>{{.Caption}}</figcaption></figure>
{{end}}</body></html>
`))

// figure is a plot with a caption.
type figure struct {
	Caption string
	Plot    template.HTML // generated here, with all texts escaped
}

// HTML writes the report as one self-contained page.
func (r *Report) HTML(w io.Writer) error {
	table := merged(r.Table(true))
	return page.Execute(w, map[string]any{
		"Report": r, "Head": table[0], "Lines": table[1:], "Notes": r.Notes(), "Figures": r.figures(),
	})
}

// merged puts standard errors into the cells of their values.
func merged(table [][]string) [][]string {
	out := make([][]string, len(table))
	for i, line := range table {
		for j, text := range line {
			switch last := len(out[i]) - 1; {
			case table[0][j] != "±":
				out[i] = append(out[i], text)
			case i > 0 && text != "-":
				out[i][last] += " ± " + text
			}
		}
	}
	return out
}

func (r *Report) figures() []figure {
	rows := r.Rows()
	var quality []series
	var reading, writing []series
	for _, row := range rows {
		if row.Speed == nil {
			continue
		}
		if row.KLD != nil && row.KLD.Mean > 0 {
			quality = append(quality, series{row.Pair.String(), []point{{float64(row.Speed.PerTok), math.Log10(row.KLD.Mean)}}})
		}
		in, out := series{name: row.Pair.String()}, series{name: row.Pair.String()}
		for _, d := range row.Speed.Depths {
			in.points = append(in.points, point{float64(d.Depth), d.Prefill})
			out.points = append(out.points, point{float64(d.Depth), d.Decode})
		}
		if len(in.points) > 0 {
			reading, writing = append(reading, in), append(writing, out)
		}
	}
	var figures []figure
	for _, f := range []struct {
		list             []series
		x, y, caption    string
		zeroY, logarithm bool
	}{
		{quality, "bytes per token", "KLD, nats", "Quality against memory: lower left is better.", false, true},
		{writing, "tokens in the context", "tokens/s", "Generating, by depth.", true, false},
		{reading, "tokens in the context", "tokens/s", "Reading a prompt, by depth.", true, false},
	} {
		if len(f.list) > 0 {
			figures = append(figures, figure{f.caption, plot(f.list, f.x, f.y, f.zeroY, f.logarithm)})
		}
	}
	for _, row := range rows {
		if row.Needle != nil && row.Needle.Note == "" && len(row.Needle.Grid) > 0 {
			figures = append(figures, figure{"Facts found with " + row.Pair.String() + ", by length and depth; alone in a text, and among those of all depths.", heat(row.Needle.Grid)})
		}
	}
	return figures
}

type point struct{ x, y float64 }

type series struct {
	name   string
	points []point
}

// Colours that red-green colour-blind people can distinguish too. Source: Wong,
// "Points of view: Color blindness", Nature Methods 8, 2011.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// Sizes of a plot.
const (
	plotWidth, plotHeight       = 760, 360
	plotLeft, plotTop           = 84, 20
	plotRight, plotBottomMargin = 230, 50
)

// ticks returns about five round numbers at equal distances. The first is at
// most low, and the last at least high. It returns 0 and 1 if low or high is
// too large or NaN.
func ticks(low, high float64) []float64 {
	const most, largest = 5, 1e15
	switch {
	case !(math.Abs(low) <= largest) || !(math.Abs(high) <= largest):
		return []float64{0, 1}
	case !(high > low):
		high = low + 1
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/most)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(f*step) <= most {
			step *= f
			break
		}
	}
	var out []float64
	for i := math.Floor(low / step); len(out) == 0 || out[len(out)-1] < high; i++ {
		out = append(out, i*step)
	}
	return out
}

// logTicks returns the exponents of powers of ten that enclose the range. If
// these are few, it also returns twice and five times each power.
func logTicks(low, high float64) []float64 {
	out := []float64{math.Floor(low)}
	few := math.Ceil(high)-out[0] < 3
	for last := out[0]; last < high; {
		decade := math.Floor(last + 1e-9)
		if few {
			out = append(out, decade+math.Log10(2), decade+math.Log10(5))
		}
		last = decade + 1
		out = append(out, last)
	}
	return out
}

// plot draws series as lines with dots. With logarithm, y is an exponent of ten.
func plot(list []series, xName, yName string, zeroY, logarithm bool) template.HTML {
	low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, s := range list {
		for _, p := range s.points {
			low = point{math.Min(low.x, p.x), math.Min(low.y, p.y)}
			high = point{math.Max(high.x, p.x), math.Max(high.y, p.y)}
		}
	}
	if zeroY {
		low.y = 0
	}
	xs, ys := ticks(low.x, high.x), ticks(low.y, high.y)
	if logarithm {
		ys = logTicks(low.y, high.y)
	}
	low, high = point{xs[0], ys[0]}, point{xs[len(xs)-1], ys[len(ys)-1]}
	high.x, high.y = math.Max(high.x, low.x+1e-9), math.Max(high.y, low.y+1e-9)
	width, height := float64(plotWidth-plotLeft-plotRight), float64(plotHeight-plotTop-plotBottomMargin)
	at := func(p point) (float64, float64) {
		return plotLeft + (p.x-low.x)/(high.x-low.x)*width, plotTop + height - (p.y-low.y)/(high.y-low.y)*height
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img">`, plotWidth, plotHeight)
	for _, v := range ys {
		_, y := at(point{low.x, v})
		if logarithm {
			v = math.Pow(10, v)
		}
		fmt.Fprintf(&b, `<line x1="%d" x2="%g" y1="%.1f" y2="%.1f" stroke="#ccc"/><text x="%d" y="%.1f" text-anchor="end">%.7g</text>`,
			plotLeft, plotLeft+width, y, y, plotLeft-6, y+4, v)
	}
	for _, v := range xs {
		x, _ := at(point{v, low.y})
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.7g</text>`, x, plotHeight-plotBottomMargin+18, v)
	}
	fmt.Fprintf(&b, `<text x="%g" y="%d" text-anchor="middle">%s</text>`, plotLeft+width/2, plotHeight-10, template.HTMLEscapeString(xName))
	fmt.Fprintf(&b, `<text transform="translate(14,%g) rotate(-90)" text-anchor="middle">%s</text>`, plotTop+height/2, template.HTMLEscapeString(yName))
	for i, s := range list {
		colour := colours[i%len(colours)]
		dash := []string{"", "6 3", "2 3"}[i/len(colours)%3]
		var path strings.Builder
		for _, p := range s.points {
			x, y := at(p)
			fmt.Fprintf(&path, "%.1f,%.1f ", x, y)
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, x, y, colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`, path.String(), colour, dash)
		y := plotTop + 10 + 18*i
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="4" fill="%s"/><text x="%d" y="%d">%s</text>`,
			plotWidth-plotRight+20, y-4, colour, plotWidth-plotRight+30, y, template.HTMLEscapeString(s.name))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// heat draws one square for each length and depth, with the result for one fact
// in the upper half and for four facts in the lower half.
func heat(grid []NeedleCell) template.HTML {
	var lengths []int
	var depths []float64
	for _, g := range grid {
		if !slices.Contains(lengths, g.Tokens) {
			lengths = append(lengths, g.Tokens)
		}
		if !slices.Contains(depths, g.Depth) {
			depths = append(depths, g.Depth)
		}
	}
	const cell, left, top = 44, 180, 24
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %[1]d %[2]d" width="%[1]d" role="img">`, left+cell*len(lengths)+10, top+cell*len(depths)+10)
	for i, n := range lengths {
		fmt.Fprintf(&b, `<text x="%d" y="16" text-anchor="middle">%d</text>`, left+cell*i+cell/2, n)
	}
	for i, d := range depths {
		for j, facts := range []string{"alone", "among all"} {
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">depth %.0f %%, %s</text>`, left-8, top+cell*i+cell/2*j+15, 100*d, facts)
		}
	}
	for _, g := range grid {
		x, y := left+cell*slices.Index(lengths, g.Tokens), top+cell*slices.Index(depths, g.Depth)
		if g.Keys > 1 {
			y += cell / 2
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="hsl(205 80%% %.0f%%)"><title>%d tokens, depth %g, %d facts: %.2f</title></rect>`,
			x, y, cell-2, cell/2-1, 95-60*g.Rate, g.Tokens, g.Depth, g.Keys, g.Rate)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
