package draft

import (
	"sync"
	"time"
)

// forget is the share of earlier measurements that remains after another one.
const forget = 0.97

// firstRow is the assumed time of another row of a step, as a share of a step of one row,
// before it was measured. leastSpread is the variance of the rows of steps from which it
// can be measured.
const (
	firstRow    = 0.3
	leastSpread = 0.05
)

// Costs measures the time of a large model's steps, as a base and a time for each row, and
// the time of a draft model's tokens. The zero value is ready.
type Costs struct {
	Free bool // proposals cost nothing, so that tests get as many as possible

	mu                sync.Mutex
	n, rows, took     float64 // sums over earlier steps, of which each counts less with time
	squares, products float64 // sums of rows squared, and of rows times took
	share             float64 // last measured time of a row, as a share of a step of one row; 0: unknown
	token             float64 // seconds of a drafted token; 0: unknown
	trust, first      float64 // recent values of all jobs, see Model; 0: unknown
	asked, running    int     // jobs that asked for a draft since the last step, and before it
}

// Step adds a step of the large model.
func (c *Costs) Step(rows int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, y := float64(rows), took.Seconds()
	for _, s := range []struct {
		sum *float64
		add float64
	}{{&c.n, 1}, {&c.rows, x}, {&c.took, y}, {&c.squares, x * x}, {&c.products, x * y}} {
		*s.sum = forget**s.sum + s.add
	}
	c.running, c.asked = max(c.asked, 1), 0
}

// drafted adds the time of a draft. Tokens of several jobs are computed together.
func (c *Costs) drafted(tokens int, took time.Duration) {
	if tokens == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	each := took.Seconds() / float64(tokens)
	if c.token == 0 {
		c.token = each
	}
	c.token += (each - c.token) / 8
}

// draft returns, in seconds, what one accepted token saves, the time of another row of a
// step, and the time of a drafted token. It counts the job that asks.
func (c *Costs) draft() (step, row, token float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.n == 0 || c.Free { // nothing is known yet
		return 1, 0, 0
	}
	rows, took := c.rows/c.n, c.took/c.n
	if spread := c.squares/c.n - rows*rows; spread > leastSpread {
		row = (c.products/c.n - rows*took) / spread
		c.share = 1
		if one := took - (rows-1)*row; one > row {
			c.share = max(row/one, 0.01)
		}
	}
	share := c.share
	if share == 0 {
		share = firstRow
	}
	one := took / (1 + share*(rows-1)) // a step of one row
	row = share * one
	jobs := float64(max(c.running, 1))
	return (one + (jobs-1)*row) / jobs, row, c.token / jobs
}

// chances returns the trust and the chance of the first token with which a job begins.
func (c *Costs) chances() (trust, first float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trust == 0 {
		return 1, firstChance
	}
	return c.trust, c.first
}

// verified updates the values with which the next job begins.
func (c *Costs) verified(trust, first float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trust == 0 {
		c.trust, c.first = trust, first
	}
	c.trust += (trust - c.trust) / 8
	c.first += (first - c.first) / 8
}
