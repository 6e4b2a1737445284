package llm

import "math"

// Usage counts what model calls consumed. Its JSON form is the "cost" object
// of the public contract. The zero value means that no call was made.
type Usage struct {
	InputTokens       int64 `json:"input_tokens"`
	CachedInputTokens int64 `json:"cached_input_tokens"`
	OutputTokens      int64 `json:"output_tokens"`
	ReasoningTokens   int64 `json:"reasoning_tokens"`

	// TotalUSD is nil when the price of any counted call is unknown: an
	// unknown price is never reported as 0.
	TotalUSD *float64 `json:"total_usd"`

	ModelCalls int64 `json:"model_calls"`
}

// Add returns the sum of u and v, with counts that stop at the ends of their
// range instead of turning over. The sum's price is known only if both prices
// are; a usage without calls changes nothing.
func (u Usage) Add(v Usage) Usage {
	switch {
	case v.ModelCalls == 0:
		return u
	case u.ModelCalls == 0:
		return v
	}
	sum := Usage{
		InputTokens:       plus(u.InputTokens, v.InputTokens),
		CachedInputTokens: plus(u.CachedInputTokens, v.CachedInputTokens),
		OutputTokens:      plus(u.OutputTokens, v.OutputTokens),
		ReasoningTokens:   plus(u.ReasoningTokens, v.ReasoningTokens),
		ModelCalls:        plus(u.ModelCalls, v.ModelCalls),
	}
	if u.TotalUSD != nil && v.TotalUSD != nil {
		// JSON has no infinity.
		usd := min(*u.TotalUSD+*v.TotalUSD, math.MaxFloat64)
		sum.TotalUSD = &usd
	}
	return sum
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
