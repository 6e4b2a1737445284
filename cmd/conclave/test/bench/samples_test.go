//go:build bench

package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// samples are measurements of one quantity.
type samples []float64

func (s *samples) add(v float64) { *s = append(*s, v) }

// median is the reported value; it ignores one slow session on a busy machine.
func (s *samples) median() float64 {
	slices.Sort(*s)
	n := len(*s)
	return ((*s)[(n-1)/2] + (*s)[n/2]) / 2
}

// report reports the median with a unit that names the target.
func (s *samples) report(b *testing.B, unit string, target float64) {
	b.Helper()
	b.ReportMetric(s.median(), fmt.Sprintf("%s(≤%v)", unit, target))
}

// percentile returns the smallest value that at least the given percentage of the measurements do
// not exceed.
func (s *samples) percentile(p float64) float64 {
	slices.Sort(*s)
	return (*s)[int(math.Ceil(float64(len(*s))*p/100))-1]
}
