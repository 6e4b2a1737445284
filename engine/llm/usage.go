package llm

import (
	"fmt"
	"math"
)

// Usage is the consumption of model calls. Its JSON form is the "cost" object of the public
// contract. The zero value means no calls.
type Usage struct {
	InputTokens       int64 `json:"input_tokens"`
	CachedInputTokens int64 `json:"cached_input_tokens"`
	OutputTokens      int64 `json:"output_tokens"`
	ReasoningTokens   int64 `json:"reasoning_tokens"`

	// TotalUSD is nil when the price of any counted call is unknown.
	TotalUSD *float64 `json:"total_usd"`

	// KnownUSD is the cost of the calls with a known price if TotalUSD is nil, and otherwise
	// 0.
	KnownUSD float64 `json:"known_usd,omitempty"`

	ModelCalls int64 `json:"model_calls"`

	// Repeated counts the requests whose replies were lost, because a worker, a pause or the end
	// of the session cut the call. They may have been paid for; most are made again.
	Repeated int64 `json:"model_calls_repeated"`

	// Rejections counts the calls whose replies were rejected.
	Rejections int64 `json:"rejections,omitempty"`
}

// AtLeastUSD returns the known cost of the calls.
func (u Usage) AtLeastUSD() float64 {
	if u.TotalUSD != nil {
		return *u.TotalUSD
	}
	return u.KnownUSD
}

// FormatUSD prints dollars with at least the given number of decimals, and with more where
// rounding would change the amount by over a hundredth.
func FormatUSD(amount float64, decimals int) string {
	unit := math.Pow10(decimals)
	for ; decimals < 12 && math.Abs(math.Round(amount*unit)/unit-amount) > math.Abs(amount)/100; decimals++ {
		unit *= 10
	}
	return fmt.Sprintf("$%.*f", decimals, amount)
}

// Add returns the sum of u and v; on overflow it saturates. TotalUSD is known only if both
// are; otherwise KnownUSD is the sum of the known parts. A usage without calls adds only its
// rejections and its lost requests.
func (u Usage) Add(v Usage) Usage {
	rejections, repeated := plus(u.Rejections, v.Rejections), plus(u.Repeated, v.Repeated)
	switch {
	case v.ModelCalls == 0:
		u.Rejections, u.Repeated = rejections, repeated
		return u
	case u.ModelCalls == 0:
		v.Rejections, v.Repeated = rejections, repeated
		return v
	}
	sum := Usage{
		InputTokens:       plus(u.InputTokens, v.InputTokens),
		CachedInputTokens: plus(u.CachedInputTokens, v.CachedInputTokens),
		OutputTokens:      plus(u.OutputTokens, v.OutputTokens),
		ReasoningTokens:   plus(u.ReasoningTokens, v.ReasoningTokens),
		ModelCalls:        plus(u.ModelCalls, v.ModelCalls),
		Rejections:        rejections,
		Repeated:          repeated,
	}
	usd := min(u.AtLeastUSD()+v.AtLeastUSD(), math.MaxFloat64) // JSON has no infinity
	if u.TotalUSD != nil && v.TotalUSD != nil {
		sum.TotalUSD = &usd
	} else {
		sum.KnownUSD = usd
	}
	return sum
}

// Since returns the usage by which u exceeds the earlier v. It is zero if there were no
// further calls.
func (u Usage) Since(v Usage) Usage {
	switch {
	case v.ModelCalls == 0:
		return u
	case u.ModelCalls <= v.ModelCalls:
		return Usage{Repeated: max(0, u.Repeated-v.Repeated)}
	}
	rest := Usage{
		InputTokens:       max(0, u.InputTokens-v.InputTokens),
		CachedInputTokens: max(0, u.CachedInputTokens-v.CachedInputTokens),
		OutputTokens:      max(0, u.OutputTokens-v.OutputTokens),
		ReasoningTokens:   max(0, u.ReasoningTokens-v.ReasoningTokens),
		ModelCalls:        u.ModelCalls - v.ModelCalls,
		Rejections:        max(0, u.Rejections-v.Rejections),
		Repeated:          max(0, u.Repeated-v.Repeated),
	}
	usd := max(0, u.AtLeastUSD()-v.AtLeastUSD())
	if u.TotalUSD != nil {
		rest.TotalUSD = &usd
	} else {
		rest.KnownUSD = usd
	}
	return rest
}

func plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
