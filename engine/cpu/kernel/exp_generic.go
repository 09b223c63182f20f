package kernel

import "math"

// Constants of the exponential, shared with the SIMD variants.
const (
	expLo = -104     // e^-104 rounds to 0
	expHi = 89       // e^89 is above the largest float32
	magic = 12582912 // 1.5·2²³: adding it rounds to an integer, which is then in the low bits

	log2e = 1.44269504088896340736
	ln2Hi = 0.693147182464599609375
	ln2Lo = -1.90465429995776804525e-9

	// Minimax approximation of (e^r - 1 - r)/r² on ±ln2/2.
	exp2 = 0.49999994
	exp3 = 0.16666521
	exp4 = 0.041668385
	exp5 = 0.00836871
	exp6 = 0.0013814636

	// Minimax approximation of atanh(√v)/√v - 1, divided by v, on [0, 1/9].
	atanh1 = 0.33333158
	atanh2 = 0.20012455
	atanh3 = 0.139803
	atanh4 = 0.14089167

	// Minimax approximation of Q(x)·e^(x²/2)/t with t = 1/(1+0.3x) for x in [0, 15]. Q is the upper
	// tail of the normal distribution.
	tailStep = 0.3
	tailMax  = 15
	tail0    = 0.119686715
	tail1    = 0.11957132
	tail2    = 0.11023934
	tail3    = 0.07837226
	tail4    = 0.0962048
	tail5    = -0.07950893
	tail6    = 0.191883
	tail7    = -0.22828457
	tail8    = 0.112464696
	tail9    = -0.020628642

	tanhMax  = 9.5                   // tanh rounds to ±1 from 9.02 on
	geluIn   = 1.5957691216057307    // 2·√(2/π)
	geluCube = 0.07135481282747269   // 0.044715 · geluIn
	geluFast = 1.7019999980926513672 // the factor of the quick form
)

// split returns n and r with x = n·ln2 + r, where |r| is at most slightly above
// ln2/2. x is clamped first. NaN stays in r.
func split(x float32) (n, r float32) {
	if x < expLo {
		x = expLo
	}
	if x > expHi {
		x = expHi
	}
	n = fma(x, log2e, magic) - magic
	r = fma(n, -ln2Hi, x)
	return n, fma(n, -ln2Lo, r)
}

// expTail returns (e^r - 1 - r)/r².
func expTail(r float32) float32 {
	p := fma(exp6, r, exp5)
	p = fma(p, r, exp4)
	p = fma(p, r, exp3)
	return fma(p, r, exp2)
}

// pow2 returns p·2ⁿ, rounded once.
func pow2(p, n float32) float32 {
	if n != n {
		return p
	}
	i := int32(n)
	half := i >> 1
	p *= math.Float32frombits(uint32(half+127) << 23)
	return p * math.Float32frombits(uint32(i-half+127)<<23)
}

func exp(x float32) float32 {
	n, r := split(x)
	p := float32(expTail(r) * r)
	p = fma(p, r, r)
	return pow2(p+1, n)
}

// tanh is (e^2|x| - 1)/(e^2|x| + 1) with the sign of x, without cancellation near zero.
func tanh(x float32) float32 {
	a := float32(math.Abs(float64(x)))
	if a > tanhMax {
		a = tanhMax
	}
	n, r := split(a + a)
	p := float32(expTail(r) * r)
	p = fma(p, r, r)
	s := pow2(1, n)
	e := fma(p, s, s-1)
	return float32(math.Copysign(float64(e/(e+2)), float64(x)))
}

func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

func silu(x float32) float32 { return x / (1 + exp(-x)) }

// gelu is x/2·(1+tanh(√(2/π)·(x + 0.044715x³))) = x·sigmoid(2·√(2/π)·(…)).
func gelu(x float32) float32 {
	u := float32(x * fma(float32(x*x), geluCube, geluIn))
	return x / (1 + exp(-u))
}

// geluQuick is x·sigmoid(1.702x).
func geluQuick(x float32) float32 { return x / (1 + exp(-float32(x*geluFast))) }

// softplus is log(1+e^x) = max(x, 0) + 2·atanh(z/(2+z)), z = e^-|x|.
func softplus(x float32) float32 {
	z := exp(-float32(math.Abs(float64(x))))
	s := z / (2 + z)
	v := float32(s * s)
	p := fma(atanh4, v, atanh3)
	p = fma(p, v, atanh2)
	p = fma(p, v, atanh1)
	p = float32(p * v)
	s += s
	if x > 0 {
		return x + fma(p, s, s)
	}
	return fma(p, s, s)
}

// geluErf returns x·Φ(x) = max(x, 0) - |x|·Q(|x|). The rounding error of x² is
// included in the exponential.
func geluErf(x float32) float32 {
	a := float32(math.Abs(float64(x)))
	if a > tailMax {
		a = tailMax
	}
	t := 1 / fma(a, tailStep, 1)
	p := fma(tail9, t, tail8)
	for _, c := range [...]float32{tail7, tail6, tail5, tail4, tail3, tail2, tail1, tail0} {
		p = fma(p, t, c)
	}
	sq := float32(a * a)
	low := fma(a, a, -sq)
	e := exp(float32(sq * -0.5))
	e = fma(e, float32(low*-0.5), e)
	q := float32(p*t) * e
	return fma(q, -a, relu(x))
}

func relu(x float32) float32 {
	if x < 0 {
		return 0
	}
	return x
}

func relu2(x float32) float32 {
	x = relu(x)
	return x * x
}
