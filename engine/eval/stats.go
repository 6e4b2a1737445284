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

// Difference returns the mean of paired differences, each from -1 to 1, and its interval by
// the method of Agresti and Min, which adds half a question to each of the four outcomes of a
// question.
func Difference(each []float64) (mean float64, in Interval) {
	sum, squares := sumAndSquares(each)
	n := float64(len(each))
	if n == 0 {
		return 0, Interval{-1, 1}
	}
	m := n + 2
	middle := sum / m
	half := confidence * math.Sqrt((squares+1-sum*sum/m)/(m*m))
	return sum / n, Interval{max(-1, middle-half), min(1, middle+half)}
}

// Needed returns the number of questions for which the mean of the paired differences would
// be significant at 5 % with a power of 80 %, by Connor's method. It returns false if the
// mean is 0.
func Needed(each []float64) (questions int, ok bool) {
	sum, squares := sumAndSquares(each)
	if math.Abs(sum) < 1e-9 {
		return 0, false
	}
	n := float64(len(each))
	mean, discordant := sum/n, squares/n
	root := confidence*math.Sqrt(discordant) + power*math.Sqrt(max(0, discordant-mean*mean))
	return int(math.Ceil(root * root / (mean * mean))), true
}

func sumAndSquares(values []float64) (sum, squares float64) {
	for _, v := range values {
		sum += v
		squares += v * v
	}
	return sum, squares
}
