package eval

import (
	"math"
)

const (
	confidence = 1.959963984540054  // quantile of the normal distribution for 95 %, two-sided
	power      = 0.8416212335729143 // quantile for a power of 80 %
)

// Interval is a 95 % confidence interval: its lower and its upper end.
type Interval [2]float64

// Wilson returns the interval of a share of k in n; if n is 0, it is the whole range. k need
// not be a whole number: with several epochs it is the sum of the questions' means.
func Wilson(k, n float64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	p, z2 := k/n, confidence*confidence
	middle := (p + z2/(2*n)) / (1 + z2/n)
	half := confidence / (1 + z2/n) * math.Sqrt(max(0, p*(1-p)/n+z2/(4*n*n)))
	return Interval{max(0, middle-half), min(1, middle+half)}
}

// McNemar returns the two-sided exact p-value if one arm alone gets b questions right and the
// other alone gets c right.
func McNemar(b, c int) float64 {
	n, k := b+c, min(b, c)
	var tail float64
	for i := 0; i <= k; i++ {
		tail += math.Exp(logBinomial(n, i) - float64(n)*math.Ln2)
	}
	return min(1, 2*tail)
}

func logBinomial(n, k int) float64 {
	lgamma := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	return lgamma(n) - lgamma(k) - lgamma(n-k)
}

// Paired are paired differences, each from -1 to 1.
type Paired struct {
	n, sum  float64
	squares float64 // sum of their squares
}

// PairUp returns the differences of two arms on the same questions.
func PairUp(each []float64) (p Paired) {
	for _, d := range each {
		p.n, p.sum, p.squares = p.n+1, p.sum+d, p.squares+d*d
	}
	return p
}

// Difference returns the mean of the differences, and its interval by the method of Agresti and Min,
// which adds half a question to each of the four outcomes of a question.
func (p Paired) Difference() (mean float64, in Interval) {
	if p.n == 0 {
		return 0, Interval{-1, 1}
	}
	m := p.n + 2
	middle := p.sum / m
	half := confidence * math.Sqrt((p.squares+1-p.sum*p.sum/m)/(m*m))
	return p.sum / p.n, Interval{max(-1, middle-half), min(1, middle+half)}
}

// Needed returns the number of questions for which the mean of the differences would be
// significant at 5 % with a power of 80 %, by Connor's method. It returns false if the mean is 0.
func (p Paired) Needed() (questions int, ok bool) {
	if math.Abs(p.sum) < 1e-9 {
		return 0, false
	}
	mean, discordant := p.sum/p.n, p.squares/p.n
	root := confidence*math.Sqrt(discordant) + power*math.Sqrt(max(0, discordant-mean*mean))
	return int(math.Ceil(root * root / (mean * mean))), true
}
