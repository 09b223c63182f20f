package graph

// Memory is the location of each value of a plan: Offset[v] counts floats in a
// scratch area of Size floats. Values with disjoint lifetimes share space.
type Memory struct {
	Offset []int
	Size   int
}

// align is the alignment of every value in floats, which is one cache line.
const align = 16

// Lifetimes returns the first and last step at which each value is needed,
// given the step in which each node runs. The nodes of a step run together, so
// their values never share space.
func (p *Plan) Lifetimes(step []int) (first, last []int) {
	first = make([]int, len(p.Values))
	last = make([]int, len(p.Values))
	for i, n := range p.Nodes {
		first[n.Out], last[n.Out] = step[i], step[i]
		for _, v := range n.In {
			if v != None {
				last[v] = max(last[v], step[i])
			}
		}
	}
	end := 0
	for _, s := range step {
		end = max(end, s+1)
	}
	last[p.Output] = end
	return first, last
}

// PlanMemory places the values for at most rows batch rows and outputs output
// rows, by best fit over their lifetimes. Values whose first step is negative get
// no place.
func (p *Plan) PlanMemory(rows, outputs int, first, last []int) Memory {
	m := Memory{Offset: make([]int, len(p.Values))}
	type block struct{ off, size, busy int } // busy is the last step that needs the block
	var blocks []block
	for _, n := range p.Nodes {
		if first[n.Out] < 0 {
			continue
		}
		count := rows
		if p.Values[n.Out].Rows == OutputRows {
			count = outputs
		}
		size := (p.Values[n.Out].Width*count + align - 1) / align * align
		best := -1
		for j, b := range blocks {
			if b.busy < first[n.Out] && b.size >= size && (best < 0 || b.size < blocks[best].size) {
				best = j
			}
		}
		if best < 0 {
			blocks = append(blocks, block{off: m.Size, size: size})
			best = len(blocks) - 1
			m.Size += size
		}
		blocks[best].busy = last[n.Out]
		m.Offset[n.Out] = blocks[best].off
	}
	return m
}
