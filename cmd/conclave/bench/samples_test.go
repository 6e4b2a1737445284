//go:build bench

package bench

import "slices"

// samples are measurements of the same thing.
type samples []float64

func (s *samples) add(v float64) { *s = append(*s, v) }

// median is what is reported: one slow session on a busy machine does not
// count.
func (s *samples) median() float64 {
	slices.Sort(*s)
	n := len(*s)
	return ((*s)[(n-1)/2] + (*s)[n/2]) / 2
}
