package sched

import (
	"math/bits"
	"time"

	"godwit/engine/llm"
)

// pace predicts how long prompt rows take, from earlier steps. The time depends
// on the depth, because attention reads everything before a row.
type pace struct {
	decode float64     // seconds of a step without prompts
	row    [28]float64 // seconds of a prompt row, by depth class; 0 if unknown
}

const (
	paceUnit = 256 // tokens of the first depth class; each later class ends at twice the depth
	// A step that was slower than predicted has more weight than a faster one.
	// This makes the next step shorter rather than longer than the limit.
	slower, faster = 0.5, 0.25
	// Assumed cost of a class relative to the previous one, before any measurement.
	deeper = 1.25
	// The largest factor by which one measurement changes a prediction.
	oddest = 4
)

// depthClass returns the class of a depth in tokens.
func depthClass(depth int) int { return min(bits.Len(uint(max(depth, 0)/paceUnit)), len(pace{}.row)-1) }

// observe updates the predictions with a step that had some decode rows.
func (p *pace) observe(decode int, spans []llm.Span, took time.Duration) {
	spent, rows, predicted := took.Seconds(), 0, 0.0
	for i := range spans {
		if sp := &spans[i]; sp.Prompt {
			rows += sp.Rows
			predicted += p.cost(sp.Rows, sp.Len-sp.Rows)
		}
	}
	if rows == 0 {
		p.decode = toward(p.decode, spent)
		return
	}
	if decode > 0 { // a step without prompts takes p.decode, but that may have been measured under another load
		spent = max(spent-p.decode, spent/oddest)
	}
	for i := range spans {
		sp := &spans[i]
		if !sp.Prompt {
			continue
		}
		class := depthClass(sp.Len - sp.Rows)
		if predicted == 0 {
			p.row[class] = spent / float64(rows)
			continue
		}
		known := p.at(class)
		p.row[class] = toward(known, known*spent/predicted)
	}
}

// toward moves a prediction toward a new measurement.
func toward(old, now float64) float64 {
	switch {
	case old == 0:
		return now
	case now > old:
		return old + slower*(min(now, oddest*old)-old)
	}
	return old + faster*(max(now, old/oddest)-old)
}

// at returns the time of a row in a depth class, or 0 if nothing is known yet.
func (p *pace) at(class int) float64 {
	factor := 1.0
	for c := class; c >= 0; c-- {
		if p.row[c] > 0 {
			return p.row[c] * factor
		}
		factor *= deeper
	}
	for c := class + 1; c < len(p.row); c++ {
		if p.row[c] > 0 {
			return p.row[c]
		}
	}
	return 0
}

// cost returns the predicted time of n rows in seconds, or 0 if nothing is
// known yet.
func (p *pace) cost(n, depth int) float64 { return float64(n) * p.at(depthClass(depth)) }

// rows returns how many rows fit into a time, or 0 if nothing is known yet.
func (p *pace) rows(seconds float64, depth int) int {
	one := p.at(depthClass(depth))
	if one == 0 || seconds <= 0 {
		return 0
	}
	return int(min(seconds/one, 1<<20))
}

// left returns the time in seconds that a bounded step leaves for prompts. It is at least a quarter
// of the bound, even if the decode rows need more than the rest.
func (p *pace) left(most time.Duration) float64 {
	return max(most.Seconds()-p.decode, most.Seconds()/4)
}
