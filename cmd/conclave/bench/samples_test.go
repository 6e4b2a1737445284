//go:build bench

package bench

import "slices"

// samples are measurements of one quantity.
type samples []float64

func (s *samples) add(v float64) { *s = append(*s, v) }

// median is the reported value; it ignores one slow session on a busy machine.
func (s *samples) median() float64 {
	slices.Sort(*s)
	n := len(*s)
	return ((*s)[(n-1)/2] + (*s)[n/2]) / 2
}
